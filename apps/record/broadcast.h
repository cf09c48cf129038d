// Broadcast of structs as CBOR.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "collectives/comm/comm.h"
#include "net/checkpoint.h"

namespace lockstep {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Position, step, samples, epoch, seed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointMetadata, position, texts)

/// Collective. Rank 0's `object` on all ranks. It travels as CBOR instead of JSON, because names of
/// files need not be UTF-8.
template <class Object>
Object broadcast_object(const Comm& comm, const Object& object) {
  std::string text;
  if (comm.rank() == 0) nlohmann::json::to_cbor(nlohmann::json(object), text);
  return nlohmann::json::from_cbor(comm.broadcast(text)).get<Object>();
}

}  // namespace lockstep
