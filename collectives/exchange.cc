#include "collectives/exchange.h"

#include "collectives/comm/comm.h"

namespace lockstep {

std::size_t chunk_for(const Comm& comm) {
  return comm.node().size() == comm.size() ? kChunkWithinHost : kChunkBetweenHosts;
}

}  // namespace lockstep
