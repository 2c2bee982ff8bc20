// Sizes batches so that each lasts long enough, then times the contestants in turn.
#include "timing.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <optional>

#include "cuda_check.hpp"
#include "device_stream.hpp"
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

/// Device time in us of what `enqueue` puts on the stream. Waits for it.
template <class Enqueue>
double device_us(Stream stream, Enqueue&& enqueue) {
  const Event begin, end;
  DROPLESS_CUDA_CHECK(cudaEventRecord(begin.get(), stream));
  enqueue();
  DROPLESS_CUDA_CHECK(cudaEventRecord(end.get(), stream));
  DROPLESS_CUDA_CHECK(cudaEventSynchronize(end.get()));
  float milliseconds = 0;
  DROPLESS_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
  return 1e3 * static_cast<double>(milliseconds);
}

/// One contestant's turn: a batch of calls, whose number its first calls settle.
class Turn {
 public:
  Turn(const Contestant& contestant, const RotationOptions& options, Stream stream)
      : call_(contestant.call), stream_(stream) {
    us_per_call();
    calls_ = 2;
    const double estimate_us = std::max(us_per_call(), 1.0);
    calls_ = std::max<std::int64_t>(1, std::llround(std::ceil(options.batch_us / estimate_us)));
    if (!options.graph) return;
    graph_.emplace(stream_, [this] { enqueue(); });
    us_per_call();
  }

  double us_per_call() {
    const double us = device_us(stream_, [this] {
      if (graph_)
        graph_->replay();
      else
        enqueue();
    });
    return us / static_cast<double>(calls_);
  }

 private:
  void enqueue() {
    for (std::int64_t i = 0; i < calls_; ++i) call_(next_index_++);
  }

  const Call& call_;
  Stream stream_;
  std::int64_t calls_ = 1;
  std::int64_t next_index_ = 0;
  std::optional<CapturedGraph> graph_;
};

}  // namespace

std::vector<Timing> time_in_rotation(const std::vector<Contestant>& contestants,
                                     const RotationOptions& options, Stream stream) {
  std::deque<Turn> turns;
  for (const Contestant& contestant : contestants) turns.emplace_back(contestant, options, stream);
  std::vector<std::vector<double>> us(turns.size());
  for (int round = 0; round < options.rounds; ++round)
    for (std::size_t turn = 0; turn < turns.size(); ++turn) {
      const std::size_t place = round % 2 == 0 ? turn : turns.size() - 1 - turn;
      const std::size_t i = (place + static_cast<std::size_t>(round / 2)) % turns.size();
      us[i].push_back(turns[i].us_per_call());
    }
  std::vector<Timing> timings;
  for (const std::vector<double>& rounds : us) timings.push_back({median(rounds), relative_spread(rounds)});
  return timings;
}

}  // namespace dropless::benchmark
