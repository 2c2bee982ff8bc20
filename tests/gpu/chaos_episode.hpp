// One right call (or chain of calls) of the library with everything around it that must not change, and wrong
// calls of the same operands. The chaos test makes them by the dozen from many host threads.
#pragma once
#include <memory>
#include <random>

#include "dropless/stream.hpp"

namespace dropless::test {

using Random = std::mt19937;

/// A number of [low, high].
inline std::int64_t draw(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(high - low + 1));
}
inline bool draw_bool(Random& random) { return draw(random, 0, 1) == 1; }
inline std::uint32_t draw_seed(Random& random) {
  return static_cast<std::uint32_t>(draw(random, 1, 1'000'000));
}

/// Made and judged by the test's own thread, called by another.
class ChaosEpisode {
 public:
  virtual ~ChaosEpisode() = default;
  /// Enqueues the right call.
  virtual void call(Stream stream) = 0;
  /// Makes one of this episode's wrong calls, which must throw Error.
  virtual void wrong_call(Random& random, Stream stream) const = 0;
  /// Catch2 assertions on the outcome, once the device has finished.
  virtual void require_right() = 0;
};

// Each makes an episode of a random small shape, whose wrong calls differ from the right one in one argument.

/// Ids to topology, gather, combine.
std::unique_ptr<ChaosEpisode> routing_episode(Random& random);
/// The blocked topology over a packed one.
std::unique_ptr<ChaosEpisode> block_topology_episode(Random& random);
/// sdd, dsd or a weight gradient on a random path.
std::unique_ptr<ChaosEpisode> product_episode(Random& random);
/// The block-sparse dsd.
std::unique_ptr<ChaosEpisode> block_sparse_episode(Random& random);
/// The expert layer's forward and backward, from tokens or from rows.
std::unique_ptr<ChaosEpisode> layer_episode(Random& random);
std::unique_ptr<ChaosEpisode> layer_rows_episode(Random& random);

}  // namespace dropless::test
