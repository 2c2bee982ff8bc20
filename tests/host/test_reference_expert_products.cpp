// The CPU expert products against a triple loop over explicit per-expert matrices: both orders, one and two
// tensors, stacks of different widths, separate tensors, gaps between experts, accumulation.
#include <cmath>
#include <limits>

#include "catch.hpp"
#include "stored_experts.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

void check_product(const Experts& experts, std::uint32_t seed) {
  const std::vector<std::int64_t> begin{1, 5, 5, 14}, count{3, 0, 8, 1};  // gaps before, between and after
  const std::int64_t total = 17, in_pitch = experts.k + 3, out_pitch = experts.n + 2;
  std::vector<double> in = random_values<double>(total * in_pitch, seed);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (std::int64_t r = 0; r < total; ++r) {
    std::size_t owner = begin.size();
    for (std::size_t e = 0; e < begin.size(); ++e)
      if (r >= begin[e] && r < begin[e] + count[e]) owner = e;
    const std::int64_t used = owner == begin.size() ? 0 : experts.depth(owner);
    for (std::int64_t c = used; c < in_pitch; ++c) in[static_cast<std::size_t>(r * in_pitch + c)] = nan;
  }
  for (const bool accumulate : {false, true}) {
    std::vector<double> out(static_cast<std::size_t>(total * out_pitch), 0.5);
    const HostExpertRows rows{begin, count};
    if (experts.narrow_n)
      reference_sdd(rows, {in.data(), in_pitch}, experts.weights, {out.data(), out_pitch}, accumulate);
    else
      reference_dsd(rows, {in.data(), in_pitch}, experts.weights, {out.data(), out_pitch}, accumulate);
    std::vector<double> expected(out.size(), 0.5);
    for (std::size_t e = 0; e < begin.size(); ++e)
      for (std::int64_t r = begin[e]; r < begin[e] + count[e]; ++r)
        for (std::int64_t c = 0; c < experts.columns(e); ++c) {
          double sum = 0;
          for (std::int64_t k = 0; k < experts.depth(e); ++k)
            sum += in[static_cast<std::size_t>(r * in_pitch + k)] *
                   experts.matrices[e][static_cast<std::size_t>(k * experts.columns(e) + c)];
          expected[static_cast<std::size_t>(r * out_pitch + c)] = sum + (accumulate ? 0.5 : 0.0);
        }
    for (std::size_t i = 0; i < out.size(); ++i) REQUIRE(out[i] == Approx(expected[i]).margin(1e-12));
  }
}

}  // namespace

TEST_CASE("reference sdd and dsd equal explicit per-expert products in every storage", "[reference]") {
  std::uint32_t seed = 1;
  for (const bool narrow_n : {false, true})
    for (const bool ragged : {false, true})
      for (const WeightOrder order : {WeightOrder::k_by_n, WeightOrder::n_by_k})
        for (const bool two_tensors : {false, true})
          for (const bool separate : {false, true}) {
            const std::vector<std::int64_t> widths =
                ragged ? std::vector<std::int64_t>{6, 0, 10, 2} : std::vector<std::int64_t>(4, 10);
            INFO("narrow_n " << narrow_n << " ragged " << ragged << " n_by_k "
                             << (order == WeightOrder::n_by_k) << " two " << two_tensors << " separate "
                             << separate);
            const Storage storage{order, two_tensors, separate, 5};
            check_product(narrow_n ? make_experts(7, 10, true, widths, storage, seed)
                                   : make_experts(10, 7, false, widths, storage, seed),
                          seed + 100);
            seed += 1000;
          }
}

TEST_CASE("a transposed view of the weights gives the input gradient", "[reference]") {
  const Experts experts =
      make_experts(5, 8, true, std::vector<std::int64_t>(2, 8), {WeightOrder::k_by_n, false, false, 0}, 3);
  const std::vector<std::int64_t> begin{0, 4}, count{4, 2};
  const std::vector<double> dh = random_values<double>(6 * 8, 9);
  std::vector<double> dx(6 * 5, 0.0);
  reference_dsd({begin, count}, {dh.data(), 8}, transposed(experts.weights), {dx.data(), 5});
  for (std::size_t r = 0; r < 6; ++r)
    for (std::size_t k = 0; k < 5; ++k) {
      double sum = 0;
      for (std::size_t n = 0; n < 8; ++n) sum += dh[r * 8 + n] * experts.matrices[r < 4 ? 0 : 1][k * 8 + n];
      REQUIRE(dx[r * 5 + k] == Approx(sum).margin(1e-12));
    }
}

TEST_CASE("exchanging two experts changes the result", "[reference]") {
  Experts experts =
      make_experts(6, 6, true, std::vector<std::int64_t>(2, 6), {WeightOrder::n_by_k, false, true, 0}, 11);
  const std::vector<std::int64_t> begin{0, 3}, count{3, 3};
  const std::vector<double> x = random_values<double>(6 * 6, 12);
  std::vector<double> right(36, 0.0), swapped(36, 0.0);
  reference_sdd({begin, count}, {x.data(), 6}, experts.weights, {right.data(), 6});
  std::swap(experts.first_pointers[0], experts.first_pointers[1]);
  reference_sdd({begin, count}, {x.data(), 6}, experts.weights, {swapped.data(), 6});
  for (std::size_t i = 0; i < right.size(); ++i) REQUIRE(std::abs(right[i] - swapped[i]) > 1e-9);
}

TEST_CASE("reference weight gradient: empty experts, gaps, pitches, accumulation", "[reference]") {
  const std::vector<std::int64_t> begin{2, 2, 9}, count{5, 0, 3};
  const std::int64_t total = 14, m = 5, n = 7, pitch_a = 6, pitch_b = 9, pitch = 8;
  std::vector<double> a = random_values<double>(total * pitch_a, 1);
  std::vector<double> b = random_values<double>(total * pitch_b, 2);
  for (const std::int64_t gap : {0, 1, 7, 8, 12, 13})
    for (std::int64_t c = 0; c < pitch_a; ++c)
      a[static_cast<std::size_t>(gap * pitch_a + c)] = std::numeric_limits<double>::quiet_NaN();
  for (const bool accumulate : {false, true}) {
    std::vector<double> dw(static_cast<std::size_t>(3 * m * pitch), 0.25);
    reference_weight_gradient({begin, count}, {a.data(), pitch_a}, {b.data(), pitch_b},
                              {3, m, n, pitch, m * pitch, dw.data()}, accumulate);
    for (std::int64_t e = 0; e < 3; ++e)
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < pitch; ++j) {
          double expected = j < n && !accumulate ? 0.0 : 0.25;
          if (j < n)
            for (std::int64_t r = begin[static_cast<std::size_t>(e)];
                 r < begin[static_cast<std::size_t>(e)] + count[static_cast<std::size_t>(e)]; ++r)
              expected +=
                  a[static_cast<std::size_t>(r * pitch_a + i)] * b[static_cast<std::size_t>(r * pitch_b + j)];
          REQUIRE(dw[static_cast<std::size_t>((e * m + i) * pitch + j)] == Approx(expected).margin(1e-12));
        }
  }
}

TEST_CASE("float and double references agree to float's accuracy", "[reference]") {
  const std::vector<std::int64_t> begin{0, 9}, count{9, 4};
  const std::vector<double> x = random_values<double>(13 * 33, 5), w = random_values<double>(2 * 33 * 21, 6);
  const std::vector<float> xf(x.begin(), x.end()), wf(w.begin(), w.end());
  std::vector<double> h(13 * 21, 0.0);
  std::vector<float> hf(13 * 21, 0.0F);
  HostExpertWeights<double> weights;
  weights.experts = 2;
  weights.k = 33;
  weights.n = weights.leading_dimension = 21;
  weights.first = {w.data(), 33 * 21, {}};
  HostExpertWeights<float> weights_float;
  weights_float.experts = 2;
  weights_float.k = 33;
  weights_float.n = weights_float.leading_dimension = 21;
  weights_float.first = {wf.data(), 33 * 21, {}};
  reference_sdd({begin, count}, {x.data(), 33}, weights, {h.data(), 21});
  reference_sdd({begin, count}, {xf.data(), 33}, weights_float, {hf.data(), 21});
  for (std::size_t i = 0; i < h.size(); ++i) REQUIRE(std::abs(h[i] - static_cast<double>(hf[i])) < 1e-5);
}

TEST_CASE("the reference refuses short arrays and impossible widths", "[reference]") {
  Experts experts = make_experts(4, 6, true, {6, 2, 4}, {WeightOrder::k_by_n, false, false, 0}, 21);
  std::vector<std::int64_t> begin{0, 1, 2}, count{1, 1, 1};
  std::vector<double> x(3 * 4, 1.0), h(3 * 6, 0.0);
  const auto run = [&] { reference_sdd({begin, count}, {x.data(), 4}, experts.weights, {h.data(), 6}); };
  CHECK_NOTHROW(run());
  experts.widths[1] = 7;
  CHECK_THROWS_AS(run(), Error);
  experts.widths[1] = 2;
  count.pop_back();
  CHECK_THROWS_AS(run(), Error);
}
