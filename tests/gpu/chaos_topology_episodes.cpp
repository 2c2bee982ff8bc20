// Episodes of what is built from router ids: the packed topology with the rows moved by it, and the blocked
// one.
#include <cmath>

#include "built_block_topology.hpp"
#include "built_topology.hpp"
#include "chaos_episode.hpp"
#include "dropless/permutation.hpp"
#include "random_values.hpp"
#include "routing.hpp"
#include "topology_view.hpp"

namespace dropless::test {
namespace {

class RoutingEpisode : public ChaosEpisode {
 public:
  explicit RoutingEpisode(Random& random)
      : tokens_(draw(random, 1, 200)),
        top_k_(draw(random, 1, 6)),
        columns_(draw(random, 1, 90)),
        ids_(random_expert_ids(tokens_, static_cast<int>(top_k_), static_cast<int>(draw(random, 6, 70)),
                               draw_seed(random), 1, 10)),
        fixture_(ids_, {tokens_, top_k_, draw(random, 6, 70), {}}),
        x_host_(random_values<float>(tokens_ * columns_, draw_seed(random))),
        weights_host_(random_values<float>(tokens_ * top_k_, draw_seed(random))),
        x_(x_host_),
        weights_(weights_host_),
        rows_(static_cast<std::size_t>(tokens_ * top_k_ * columns_)),
        out_(static_cast<std::size_t>(tokens_ * columns_)) {}

  void call(Stream stream) override {
    topology_ = fixture_.build(stream);
    gather(topology_.row_order(), view(x_), mutable_view(rows_), columns_, stream);
    combine(topology_.row_order(), view(rows_), weights_.data(), mutable_view(out_), columns_, false, stream);
  }

  void wrong_call(Random& random, Stream stream) const override {
    const auto& f = fixture_;
    TopologyBounds bounds = f.bounds;
    RouterIds ids = f.router;
    std::size_t metadata = f.metadata.size(), workspace = f.workspace.size(), shift = 0;
    RowOrder order{tokens_, top_k_, f.ids.data()};
    RowsView x = view(x_);
    MutableRowsView rows = mutable_view(rows_);
    switch (draw(random, 0, 11)) {
      case 0:
        if (workspace == 0)
          metadata = 0;
        else
          workspace = static_cast<std::size_t>(draw(random, 0, static_cast<std::int64_t>(workspace) - 1));
        break;
      case 1:
        metadata -= 1;
        break;
      case 2:
        shift = 4;
        break;
      case 3:
        bounds.top_k = draw_bool(random) ? 0 : 129;
        break;
      case 4:
        bounds.experts = draw_bool(random) ? 0 : 4097;
        break;
      case 5:
        ids.data = nullptr;
        break;
      case 6:
        bounds.tokens = -1;
        break;
      case 7:
        x.leading_dimension = columns_ - 1;
        return gather(order, x, rows, columns_, stream);
      case 8:
        rows.type = ElementType::bf16;
        return gather(order, x, rows, columns_, stream);
      case 9:
        order.top_k = 0;
        return gather(order, x, rows, columns_, stream);
      case 10:
        rows.data = nullptr;
        return gather(order, x, rows, columns_, stream);
      default:
        order.assignment_to_row = nullptr;
        return gather(order, x, rows, columns_, stream);
    }
    build_topology(ids, bounds, f.metadata.data() + shift, metadata, f.workspace.data(), workspace, stream);
  }

  void require_right() override {
    require_equal(download(topology_), reference_topology(ids_, fixture_.bounds));
    const std::vector<std::int32_t> row_of = download(topology_.assignment_to_row, ids_.size());
    const std::vector<float> rows = rows_.download(), out = out_.download();
    std::size_t wrong_rows = 0, wrong_sums = 0;
    for (std::int64_t token = 0; token < tokens_; ++token)
      for (std::int64_t column = 0; column < columns_; ++column) {
        const float x = x_host_[static_cast<std::size_t>(token * columns_ + column)];
        double sum = 0, magnitude = 0;
        for (std::int64_t slot = 0; slot < top_k_; ++slot) {
          const auto assignment = static_cast<std::size_t>(token * top_k_ + slot);
          if (row_of[assignment] < 0) continue;
          wrong_rows += rows[static_cast<std::size_t>(row_of[assignment] * columns_ + column)] != x;
          sum += static_cast<double>(weights_host_[assignment]) * x;
          magnitude += std::abs(static_cast<double>(weights_host_[assignment]) * x);
        }
        const float actual = out[static_cast<std::size_t>(token * columns_ + column)];
        wrong_sums += !(std::abs(actual - sum) <= 1e-5 * magnitude);
      }
    const auto useful = static_cast<std::size_t>(download(topology_.status, 1)[0].useful_rows * columns_);
    for (std::size_t i = useful; i < rows.size(); ++i) wrong_rows += !std::isnan(rows[i]);
    REQUIRE(wrong_rows == 0);
    REQUIRE(wrong_sums == 0);
    REQUIRE(fixture_.guards_intact());
    REQUIRE(
        (x_.guards_intact() && weights_.guards_intact() && rows_.guards_intact() && out_.guards_intact()));
    REQUIRE((x_.download() == x_host_ && weights_.download() == weights_host_));
  }

 private:
  RowsView view(const DeviceBuffer<float>& buffer) const {
    return {buffer.data(), columns_, ElementType::fp32};
  }
  MutableRowsView mutable_view(const DeviceBuffer<float>& buffer) const {
    return {buffer.data(), columns_, ElementType::fp32};
  }

  std::int64_t tokens_, top_k_, columns_;
  std::vector<std::int32_t> ids_;
  TopologyFixture<std::int32_t> fixture_;
  std::vector<float> x_host_, weights_host_;
  DeviceBuffer<float> x_, weights_, rows_, out_;
  Topology topology_;
};

class BlockTopologyEpisode : public ChaosEpisode {
 public:
  explicit BlockTopologyEpisode(Random& random)
      : BlockTopologyEpisode(draw(random, 0, 150), draw(random, 1, 4), draw(random, 4, 24), random) {}

  void call(Stream stream) override {
    built_ =
        build_block_topology(fixture_.build(stream), block_, d_ff_, memory_.data(), memory_.size(), stream);
  }

  void wrong_call(Random& random, Stream stream) const override {
    Topology packed = topology_view(fixture_.bounds, fixture_.metadata.data(), fixture_.metadata.size());
    std::int64_t block = block_;
    std::vector<std::int64_t> d_ff = d_ff_;
    unsigned char* memory = memory_.data();
    std::size_t bytes = memory_.size();
    switch (draw(random, 0, 6)) {
      case 0:
        packed = {};
        break;
      case 1:
        block = 48;
        break;
      case 2:
        d_ff.back() += 1;
        break;
      case 3:
        d_ff.resize(d_ff.size() + 2, block);
        break;
      case 4:
        memory = nullptr;
        break;
      case 5:
        memory += 4;
        break;
      default:
        bytes -= 1;
        break;
    }
    build_block_topology(packed, block, d_ff, memory, bytes, stream);
  }

  void require_right() override {
    require_host_result(built_, ids_, d_ff_);
    REQUIRE((fixture_.guards_intact() && memory_.guards_intact()));
    REQUIRE(fixture_.ids.download() == ids_);
  }

 private:
  BlockTopologyEpisode(std::int64_t tokens, std::int64_t top_k, std::int64_t experts, Random& random)
      : block_(std::int64_t{16} << draw(random, 0, 3)),
        d_ff_(draw_widths(random, block_, experts)),
        ids_(random_expert_ids(tokens, static_cast<int>(top_k), static_cast<int>(experts), draw_seed(random),
                               1, 10)),
        fixture_(ids_, {tokens, top_k, experts, {}}),
        memory_(device_block_topology_bytes(fixture_.bounds, block_, d_ff_)) {}

  /// One width for all experts, or one each.
  static std::vector<std::int64_t> draw_widths(Random& random, std::int64_t block, std::int64_t experts) {
    std::vector<std::int64_t> widths(static_cast<std::size_t>(draw_bool(random) ? 1 : experts));
    for (std::int64_t& width : widths) width = block * draw(random, 1, 4);
    return widths;
  }

  std::int64_t block_;
  std::vector<std::int64_t> d_ff_;
  std::vector<std::int32_t> ids_;
  TopologyFixture<std::int32_t> fixture_;
  DeviceBuffer<unsigned char> memory_;
  DeviceBlockTopology built_;
};

}  // namespace

std::unique_ptr<ChaosEpisode> routing_episode(Random& random) {
  return std::make_unique<RoutingEpisode>(random);
}

std::unique_ptr<ChaosEpisode> block_topology_episode(Random& random) {
  return std::make_unique<BlockTopologyEpisode>(random);
}

}  // namespace dropless::test
