#include "timing.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "cuda_check.hpp"
#include "statistics.hpp"

namespace dropless::benchmark {
namespace {

class Event {
 public:
  Event() { DROPLESS_CUDA_CHECK(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

double time_calls(const Call& call, std::int64_t first_index, std::int64_t calls, Stream stream) {
  const Event begin, end;
  DROPLESS_CUDA_CHECK(cudaEventRecord(begin.get(), stream));
  for (std::int64_t i = 0; i < calls; ++i) call(first_index + i);
  DROPLESS_CUDA_CHECK(cudaEventRecord(end.get(), stream));
  DROPLESS_CUDA_CHECK(cudaEventSynchronize(end.get()));
  float milliseconds = 0;
  DROPLESS_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
  return 1e3 * static_cast<double>(milliseconds) / static_cast<double>(calls);
}

std::vector<Timing> time_in_rotation(const std::vector<Contestant>& contestants,
                                     const RotationOptions& options, Stream stream) {
  struct State {
    std::int64_t next_index = 0;
    std::int64_t calls = 1;
    std::vector<double> rounds_us;
  };
  std::vector<State> states(contestants.size());
  const auto batch = [&](std::size_t i, std::int64_t calls) {
    const double us = time_calls(contestants[i].call, states[i].next_index, calls, stream);
    states[i].next_index += calls;
    return us;
  };
  for (std::size_t i = 0; i < contestants.size(); ++i) {
    batch(i, 1);
    const double estimate_us = batch(i, 2);
    states[i].calls =
        std::max<std::int64_t>(1, std::llround(std::ceil(options.batch_us / std::max(estimate_us, 1.0))));
  }
  for (int round = 0; round < options.rounds; ++round)
    for (std::size_t turn = 0; turn < contestants.size(); ++turn) {
      const std::size_t i = (turn + static_cast<std::size_t>(round)) % contestants.size();
      states[i].rounds_us.push_back(batch(i, states[i].calls));
    }
  std::vector<Timing> timings;
  for (const State& state : states)
    timings.push_back({median(state.rounds_us), relative_spread(state.rounds_us)});
  return timings;
}

}  // namespace dropless::benchmark
