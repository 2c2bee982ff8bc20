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

/// Ids to topology, gather, combine.
std::unique_ptr<ChaosEpisode> routing_episode(Random& random);
/// sdd, dsd or a weight gradient on a random path.
std::unique_ptr<ChaosEpisode> product_episode(Random& random);
/// The block-sparse dsd.
std::unique_ptr<ChaosEpisode> block_sparse_episode(Random& random);

}  // namespace dropless::test
