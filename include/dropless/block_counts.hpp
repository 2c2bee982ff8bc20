// How much of a block-sparse structure a batch turned out to need, where only the device knows: the link
// between a topology built on the GPU and the block-sparse products over it.
#pragma once
#include <cstdint>

namespace dropless {

/// In device memory.
struct BlockCounts {
  std::int32_t block_rows = 0;  ///< scheduled rows / block
  std::int32_t nonzero_blocks = 0;
};

}  // namespace dropless
