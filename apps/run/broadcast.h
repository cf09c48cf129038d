// Structs of rank 0 on all ranks, and how the structs that travel are written.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "collectives/comm/comm.h"
#include "net/checkpoint.h"

namespace lockstep {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Position, step, samples, epoch, seed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointMetadata, position, texts)

/// Collective. Rank 0's `object` on all ranks. It travels as CBOR, because texts in JSON must be
/// UTF-8 and the name of a file may be any bytes.
template <class Object>
Object broadcast_object(const Comm& comm, const Object& object) {
  std::string text;
  if (comm.rank() == 0) nlohmann::json::to_cbor(nlohmann::json(object), text);
  return nlohmann::json::from_cbor(comm.broadcast(text)).get<Object>();
}

}  // namespace lockstep
