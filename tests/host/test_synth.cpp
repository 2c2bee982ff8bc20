// Synthetic traces: the shape, the router models' shares, and the same bytes for the same seed.
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "catch.hpp"
#include "dropless/synth.hpp"
#include "trace_files.hpp"

using namespace dropless;

namespace {

std::string written(const TemporaryFolder& folder, const SynthOptions& options) {
  const std::string path = folder.path("synth.npy");
  write_synth_trace(path, options);
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

SynthOptions small() {
  SynthOptions options;
  options.layers = 2;
  options.sequences = 8;
  options.positions = 256;
  return options;
}

}  // namespace

TEST_CASE("a synthetic trace is a .npy of the stated shape with distinct experts in each row", "[synth]") {
  const TemporaryFolder folder;
  for (const RouterModel model : {RouterModel::uniform, RouterModel::zipf, RouterModel::hot_expert}) {
    SynthOptions options = small();
    options.model = model;
    const std::string file = written(folder, options);
    REQUIRE(file.size() == 128 + static_cast<std::size_t>(synth_bytes(options)));
    CHECK(file.find("(2, 8, 256, 8)") != std::string::npos);
    for (std::size_t row = 128; row < file.size(); row += 8) {
      const std::set<char> experts(file.begin() + static_cast<std::ptrdiff_t>(row),
                                   file.begin() + static_cast<std::ptrdiff_t>(row + 8));
      REQUIRE(experts.size() == 8);
      REQUIRE(*experts.rbegin() < 64);
    }
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path("")), {}) == 1);
}

TEST_CASE("a seed means one file", "[synth]") {
  const TemporaryFolder folder;
  SynthOptions options = small();
  const std::string first = written(folder, options);
  CHECK(written(folder, options) == first);
  options.seed = 1;
  CHECK(written(folder, options) != first);
}

TEST_CASE("router models give experts the shares they state", "[synth]") {
  const TemporaryFolder folder;
  SynthOptions options;
  options.sequences = 64;
  options.top_k = 1;
  options.experts = 16;
  const double draws = 64 * 512;
  const auto sorted_shares = [&] {
    std::array<double, 16> shares{};
    const std::string file = written(folder, options);
    for (std::size_t i = 128; i < file.size(); ++i) shares[static_cast<std::size_t>(file[i])] += 1 / draws;
    std::sort(shares.rbegin(), shares.rend());
    return shares;
  };
  // Shares are within 5 standard deviations, at most 5 * sqrt(0.25 / draws) = 0.014.
  const auto uniform = sorted_shares();
  CHECK(uniform.front() == Approx(1.0 / 16).margin(0.014));
  CHECK(uniform.back() == Approx(1.0 / 16).margin(0.014));
  options.model = RouterModel::zipf;
  double harmonic = 0;
  for (int rank = 1; rank <= 16; ++rank) harmonic += 1.0 / rank;
  const auto zipf = sorted_shares();
  CHECK(zipf[0] == Approx(1 / harmonic).margin(0.014));
  CHECK(zipf[3] == Approx(1 / harmonic / 4).margin(0.014));
  options.model = RouterModel::hot_expert;
  options.hot_share = 0.75;
  CHECK(sorted_shares()[0] == Approx(0.75).margin(0.014));
}

TEST_CASE("extreme weights still give every row its experts, and ids above 255 take two bytes", "[synth]") {
  const TemporaryFolder folder;
  SynthOptions options = small();
  options.model = RouterModel::zipf;
  options.exponent = 20;
  options.experts = 8;
  CHECK(written(folder, options).size() == 128 + static_cast<std::size_t>(synth_bytes(options)));
  options.experts = 300;
  CHECK(synth_bytes(options) == 2 * 2 * 8 * 256 * 8);
  CHECK(written(folder, options).find("<u2") != std::string::npos);
}

TEST_CASE("options out of range and files that cannot be written are errors", "[synth]") {
  SynthOptions options;
  options.top_k = 65;
  CHECK_THROWS_WITH(synth_bytes(options), "experts is 64; expected top_k = 65 to 65536");
  options = {};
  options.hot_share = 1;
  CHECK_THROWS_AS(synth_bytes(options), Error);
  CHECK_THROWS_AS(write_synth_trace("/no/such/folder/x.npy", {}), FileError);
}
