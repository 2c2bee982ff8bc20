// Telling counts that were never reset from counts of batches: a producer that adds up and logs the sum gives
// records that look like batches but hold all that came before.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

namespace dropless::traces {

/// Watches the counts of a log, record by record. They look like running sums where no expert's count falls
/// from a layer's record to its next, in any layer, and each layer's total grows every time, the most that
/// it grows by being less than twice the least. Batches of changing size seldom grow that evenly, and in
/// batches of one size about half the experts fall each time.
class RunningSums {
 public:
  /// One record's counts per expert; those past `experts` are 0.
  void add(std::int64_t layer, const std::int64_t* counts, std::int64_t experts) {
    if (possible_) compare(layer, counts, experts);
  }
  /// Whether what was added looks like running sums, with enough of it that chance can be left out.
  bool found() const;

 private:
  /// Of 3 records or more.
  static constexpr std::int64_t least_records = 3;
  /// Counts of batches that grew by chance, each of which is at most as probable as not, are fewer.
  static constexpr std::int64_t least_growths = 16;

  struct Layer {
    std::int64_t records = 0, growths = 0;
    double total = 0, least_growth = 0, most_growth = 0;  // no integer holds the sum of all that is believed
    std::vector<std::int64_t> last;                       // by expert
  };

  void compare(std::int64_t layer, const std::int64_t* counts, std::int64_t experts);

  bool possible_ = true;
  std::map<std::int64_t, Layer> layers_;
};

}  // namespace dropless::traces
