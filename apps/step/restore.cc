#include "apps/step/restore.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "src/base/check.h"

namespace lockstep {

void load_on_all_ranks(const Comm& comm, const Checkpoint* checkpoint, const Layout& layout,
                       const std::vector<Section>& sections) {
  agree(comm, [&] {
    if (checkpoint) checkpoint->load(layout, sections);
  });
  const auto count = static_cast<std::size_t>(layout.count);
  for (const Section& section : sections) comm.broadcast(std::span(section.arena, count));
  agree(comm, [&] {
    for (const Section& section : sections) {
      if (!checkpoint) break;
      require(std::all_of(section.arena, section.arena + count,
                          [](float value) { return std::isfinite(value); }),
              "{} holds {} that are not finite: use another file", checkpoint->file().string(),
              section.name == "parameters" ? "weights" : "numbers of " + section.name);
    }
  });
}

}  // namespace lockstep
