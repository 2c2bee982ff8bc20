// The portable path of sdd and dsd: chooses the kernel by element type, weight order and what 16-byte copies
// can reach.
#include "float_product.cuh"
#include "tensor_core_product.cuh"

namespace dropless {
namespace {

/// Whether every expert's matrix begins at a multiple of 16 bytes with rows that do.
bool weights_move_by_chunks(const RowsByWeights& product, const WeightTensor& tensor) {
  const ExpertWeights& weights = product.weights;
  if (tensor.matrices != nullptr)
    return tensor.maps.on_16_bytes && weights.leading_dimension % chunk_elements == 0;
  if (weights.widths.d_ff != nullptr) {
    const bool d_ff_outermost = product.ragged_n == (weights.order == WeightOrder::n_by_k);
    return d_ff_outermost && moves_by_chunks(tensor.data, weights.leading_dimension);
  }
  return moves_by_chunks(tensor.data, weights.leading_dimension) &&
         (weights.experts == 1 || tensor.expert_stride % chunk_elements == 0);
}

bool move_by_chunks(const RowsByWeights& product) {
  const ExpertWeights& weights = product.weights;
  const bool second_k_aligned = !has_second(weights) || product.split_n ||
                                (weights.widths.d_ff == nullptr && weights.k / 2 % chunk_elements == 0);
  return second_k_aligned && moves_by_chunks(product.in.data, product.in.leading_dimension) &&
         weights_move_by_chunks(product, weights.first) &&
         (!has_second(weights) || weights_move_by_chunks(product, weights.second));
}

template <class Element, bool KInner>
void launch(const RowsByWeights& product, Stream stream) {
  if (move_by_chunks(product))
    launch_tensor_core_product<Element, true, KInner, true>(product, product.out.type, stream);
  else
    launch_tensor_core_product<Element, true, KInner, false>(product, product.out.type, stream);
}

template <bool KInner>
void launch(const RowsByWeights& product, Stream stream) {
  switch (product.weights.type) {
    case ElementType::bf16:
      return launch<__nv_bfloat16, KInner>(product, stream);
    case ElementType::fp16:
      return launch<__half, KInner>(product, stream);
    case ElementType::fp32:
      return launch_float_product<true, KInner>(product, stream);
  }
}

}  // namespace

void launch_portable(const RowsByWeights& product, Stream stream) {
  if (product.weights.order == WeightOrder::n_by_k)
    launch<true>(product, stream);
  else
    launch<false>(product, stream);
}

}  // namespace dropless
