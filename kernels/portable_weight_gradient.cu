// The portable path of weight_gradient: k runs over an expert's rows, so both operands lie with k outermost,
// and rows past the expert's end read as zeros in both.
#include "float_product.cuh"
#include "tensor_core_product.cuh"

namespace dropless {
namespace {

template <class Element>
void launch(const RowsTransposedByRows& product, Stream stream) {
  if (moves_by_chunks(product.a.data, product.a.leading_dimension) &&
      moves_by_chunks(product.b.data, product.b.leading_dimension))
    launch_tensor_core_product<Element, false, false, true>(product, product.dw.type, stream);
  else
    launch_tensor_core_product<Element, false, false, false>(product, product.dw.type, stream);
}

}  // namespace

void launch_portable(const RowsTransposedByRows& product, Stream stream) {
  switch (product.a.type) {
    case ElementType::bf16:
      return launch<__nv_bfloat16>(product, stream);
    case ElementType::fp16:
      return launch<__half>(product, stream);
    case ElementType::fp32:
      return launch_float_product<false, false>(product, stream);
  }
}

}  // namespace dropless
