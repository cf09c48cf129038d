#include "apps/restore.h"

#include <span>

namespace lockstep {

void load_on_all_ranks(const Comm& comm, const Checkpoint* checkpoint, const Layout& layout,
                       const std::vector<Section>& sections) {
  agree(comm, [&] {
    if (checkpoint) checkpoint->load(layout, sections);
  });
  const auto count = static_cast<std::size_t>(layout.count);
  for (const Section& section : sections) comm.broadcast(std::span(section.arena, count));
}

}  // namespace lockstep
