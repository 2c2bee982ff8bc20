// Separate tensors prepared at load time: what lands in device memory, what is refused, and that products
// over them take the Hopper kernels and give the bits of the same matrices in one allocation.
#include "product_case.hpp"
#include "refused_argument.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

const std::vector<std::int32_t> uneven_rows{130, 0, 1, 64, 200, 17};

/// Three matrices of 64 x 72 in one buffer, not in order.
struct ThreeMatrices {
  DeviceBuffer<std::uint16_t> values{3 * 64 * 72};
  std::vector<void*> pointers{values.data() + 2 * 64 * 72, values.data(), values.data() + 64 * 72};
  DeviceBuffer<unsigned char> memory{separate_matrices_bytes(3)};

  SeparateMatrices prepare(std::int64_t leading_dimension = 72, ElementType type = ElementType::bf16) {
    return prepare_separate_matrices(pointers, 64, 64, leading_dimension, type, memory.data(), memory.size(),
                                     nullptr);
  }
};

}  // namespace

TEST_CASE("separate matrices: pointers and maps lie in the caller's memory", "[separate][small]") {
  ThreeMatrices three;
  const SeparateMatrices prepared = three.prepare();
  CHECK(download(prepared.matrices, 3) == three.pointers);
  CHECK((prepared.maps.maps != nullptr) == gpu_has(KernelPath::sm90));
  CHECK(prepared.maps.rows == 64);
  CHECK(prepared.maps.columns == 64);
  CHECK(prepared.maps.leading_dimension == 72);
  CHECK(prepared.maps.on_16_bytes);
  CHECK(three.memory.guards_intact());

  CHECK(three.prepare(68).maps.maps == nullptr);  // 136 bytes
  CHECK(three.prepare(64, ElementType::fp32).maps.maps == nullptr);
  three.pointers[1] = three.values.data() + 4;
  CHECK(three.prepare().maps.maps == nullptr);
  CHECK_FALSE(three.prepare().maps.on_16_bytes);
}

TEST_CASE("separate matrices: what is refused", "[separate][small]") {
  ThreeMatrices three;
  const auto prepare = [&](std::int64_t rows, std::int64_t columns, unsigned char* memory,
                           std::size_t bytes) {
    return refused_argument([&] {
      prepare_separate_matrices(three.pointers, rows, columns, 72, ElementType::bf16, memory, bytes, nullptr);
    });
  };
  unsigned char* const memory = three.memory.data();
  const std::size_t bytes = three.memory.size();
  CHECK(prepare(64, 64, memory, bytes) == "nothing");
  CHECK(prepare(0, 64, memory, bytes) == "rows");
  CHECK(prepare(64, 0, memory, bytes) == "columns");
  CHECK(prepare(64, 73, memory, bytes) == "leading_dimension");
  CHECK(prepare(64, 64, memory, bytes - 1) == "memory_bytes");
  CHECK(prepare(64, 64, nullptr, bytes) == "memory");
  CHECK(prepare(64, 64, memory + 16, bytes) == "memory");
  three.pointers[1] = reinterpret_cast<unsigned char*>(three.pointers[1]) + 1;
  CHECK(prepare(64, 64, memory, bytes) == "matrices[1]");
  three.pointers[1] = three.values.data();
  three.pointers[2] = nullptr;
  CHECK(prepare(64, 64, memory, bytes) == "matrices[2]");
  CHECK(refused_argument([] { separate_matrices_bytes(-1); }) == "experts");
}

TEST_CASE("separate tensors take the Hopper kernels and give the same bits", "[separate][small]") {
  const DeviceRows rows = packed_rows(uneven_rows);
  const auto bits = [](const DeviceMatrix& matrix) { return matrix.buffer.download(); };
  ProductShape stacked;
  stacked.k = 192;
  stacked.n = 384;
  stacked.type = GENERATE(ElementType::bf16, ElementType::fp16);
  stacked.order = GENERATE(WeightOrder::k_by_n, WeightOrder::n_by_k);
  stacked.d_ff = GENERATE(DffDimension::n, DffDimension::k);
  stacked.two_tensors = stacked.d_ff == DffDimension::n;
  stacked.accumulate = stacked.order == WeightOrder::k_by_n;
  ProductShape separate = stacked;
  separate.separate = true;
  for (const KernelPath path : all_paths) {
    if (!gpu_has(path)) continue;
    INFO("path " << path_name(path));
    RowsByWeightsCase one(rows.view(), stacked, 1), several(rows.view(), separate, 1);
    REQUIRE(several.can_run(path));
    one.run(path);
    several.run(path);
    several.require_right();
    CHECK(bits(one.out) == bits(several.out));
    for (const ElementType type : {stacked.type, ElementType::fp32}) {
      WeightGradientCase gradient(rows.view(), separate, type, 1);
      REQUIRE(gradient.can_run(path));
      gradient.run(path);
      gradient.require_right();
    }
  }
}

TEST_CASE("separate weights that lie off 16 bytes are read element by element", "[separate][small]") {
  const DeviceRows rows = packed_rows(uneven_rows);
  ProductShape stacked;
  stacked.k = 72;
  stacked.n = 96;
  stacked.type = GENERATE(ElementType::bf16, ElementType::fp32);
  stacked.order = GENERATE(WeightOrder::k_by_n, WeightOrder::n_by_k);
  stacked.d_ff = GENERATE(DffDimension::n, DffDimension::k);
  stacked.two_tensors = GENERATE(false, true);
  ProductShape shifted = stacked;
  shifted.separate = true;
  shifted.shift = 1;
  RowsByWeightsCase one(rows.view(), stacked, 1), several(rows.view(), shifted, 1);
  CHECK_FALSE(several.can_run(KernelPath::sm90));
  one.run(KernelPath::portable);
  several.run(KernelPath::portable);
  several.require_right();
  const bool same_bits = one.out.buffer.download() == several.out.buffer.download();
  CHECK(same_bits);
}

TEST_CASE("separate tensors without maps take the portable kernels", "[separate][small]") {
  const DeviceRows rows = packed_rows(uneven_rows);
  ProductShape shape;
  shape.separate = true;
  const RowsByWeightsCase product(rows.view(), shape, 1);
  ExpertWeights weights = product.weights.view();
  weights.first.maps = {};
  CHECK(sdd_path(rows.view(), product.in.read(), weights, product.out.view()) == KernelPath::portable);
  const WeightGradientCase gradient(rows.view(), shape, ElementType::bf16, 1);
  ExpertGradients gradients = gradient.gradients;
  gradients.maps = {};
  CHECK(weight_gradient_path(rows.view(), gradient.a.read(), gradient.b.read(), gradients) ==
        KernelPath::portable);
}
