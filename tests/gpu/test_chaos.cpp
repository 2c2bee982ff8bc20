// The library under disorder: right and wrong calls at random from several host threads and streams, failed
// allocations, broken captures. Every wrong call throws and changes nothing, every right one gives the
// reference's result, and the library stays of use afterwards.
#include <cstdlib>
#include <iterator>
#include <string>
#include <thread>

#include "built_topology.hpp"
#include "chaos_episode.hpp"
#include "device_stream.hpp"
#include "dropless/error.hpp"
#include "product_case.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

constexpr std::unique_ptr<ChaosEpisode> (*kinds_of_episode[])(Random&) = {
    routing_episode,      block_topology_episode, product_episode,
    block_sparse_episode, layer_episode,          layer_rows_episode};

std::unique_ptr<ChaosEpisode> random_episode(Random& random) {
  return kinds_of_episode[draw(random, 0, std::size(kinds_of_episode) - 1)](random);
}

/// The calls of one host thread: its episodes in turn over two streams, each among wrong calls.
class ChaosThread {
 public:
  ChaosThread(Random& random, int episodes) : random_(random()) {
    for (int i = 0; i < episodes; ++i) episodes_.push_back(random_episode(random));
  }

  void run() {
    for (std::size_t i = 0; i < episodes_.size(); ++i) {
      const Stream stream = streams_[i % 2];
      make_wrong_calls(*episodes_[i], stream);
      try {
        episodes_[i]->call(stream);
      } catch (const std::exception& error) {
        complaints_.push_back(std::string("a right call threw: ") + error.what());
      }
      make_wrong_calls(*episodes_[static_cast<std::size_t>(draw(random_, 0, static_cast<int>(i)))], stream);
    }
  }

  /// By the test's own thread, once the device has finished.
  void require_right() {
    for (const std::string& complaint : complaints_) FAIL_CHECK(complaint);
    for (const auto& episode : episodes_) episode->require_right();
  }

 private:
  void make_wrong_calls(const ChaosEpisode& episode, Stream stream) {
    for (std::int64_t calls = draw(random_, 0, 3); calls > 0; --calls) try {
        episode.wrong_call(random_, stream);
        complaints_.push_back("a wrong call did not throw");
      } catch (const CudaError& error) {
        complaints_.push_back(std::string("a wrong call got as far as CUDA: ") + error.what());
      } catch (const Error&) {
      }
  }

  Random random_;
  std::vector<std::unique_ptr<ChaosEpisode>> episodes_;
  DeviceStream streams_[2];
  std::vector<std::string> complaints_;
};

void require_chaos_harmless(std::uint32_t seed, int thread_count, int episodes) {
  INFO("seed " << seed);
  Random random(seed);
  std::vector<std::unique_ptr<ChaosThread>> chaos;
  for (int i = 0; i < thread_count; ++i) chaos.push_back(std::make_unique<ChaosThread>(random, episodes));
  std::vector<std::thread> threads;
  for (const auto& one : chaos) threads.emplace_back([&one] { one->run(); });
  for (std::thread& thread : threads) thread.join();
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  for (const auto& one : chaos) one->require_right();
}

using Episodes = std::vector<std::unique_ptr<ChaosEpisode>>;
Episodes one_of_each(std::uint32_t seed) {
  Random random(seed);
  Episodes episodes;
  for (const auto make : kinds_of_episode) episodes.push_back(make(random));
  return episodes;
}

}  // namespace

TEST_CASE("wrong calls among right ones, from several threads and streams", "[chaos][small]") {
  require_chaos_harmless(GENERATE(range(1u, 4u)), 2, 4);
}

TEST_CASE("a long chaos of wrong and right calls", "[chaos]") {
  // DROPLESS_CHAOS_SEED asks for other sequences than the usual ones.
  const char* const seed = std::getenv("DROPLESS_CHAOS_SEED");
  const auto first = seed != nullptr ? static_cast<std::uint32_t>(std::strtoul(seed, nullptr, 10)) : 1000u;
  for (std::uint32_t i = 0; i < 20; ++i) require_chaos_harmless(first + i, 6, 12);
}

TEST_CASE("the first CUDA call of a host thread may be any of the library's", "[chaos][small]") {
  ProductShape shape;
  const DeviceRows rows = packed_rows({40, 3});
  RowsByWeightsCase product(rows.view(), shape, 1);
  const DeviceStream stream;
  std::string complaint;
  std::thread([&] {
    try {
      product.enqueue(KernelPath::automatic, stream);
    } catch (const std::exception& error) {
      complaint = error.what();
    }
  }).join();
  CHECK(complaint.empty());
  stream.synchronize();
  product.require_right();
}

TEST_CASE("an allocation that fails around the library leaves it usable", "[chaos]") {
  const Episodes episodes = one_of_each(5);
  const DeviceStream stream;
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, std::size_t{1} << 50) == cudaErrorMemoryAllocation);
  // The error stays pending: a library that asked for the last one would blame its own launches for it.
  for (const auto& episode : episodes) CHECK_NOTHROW(episode->call(stream));
  cudaGetLastError();
  stream.synchronize();
  for (const auto& episode : episodes) episode->require_right();
}

TEST_CASE("a launch that fails is a CudaError, and the library usable afterwards", "[chaos]") {
  const DeviceStream stream;
  for (const auto& episode : one_of_each(7)) {
    // Waiting for a stream that is being captured breaks its capture; every launch then fails.
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK(cudaStreamSynchronize(stream) != cudaSuccess);
    CHECK_THROWS_AS(episode->call(stream), CudaError);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(stream, &graph) != cudaSuccess);
    cudaGetLastError();
    episode->call(stream);
    stream.synchronize();
    episode->require_right();
  }
}
