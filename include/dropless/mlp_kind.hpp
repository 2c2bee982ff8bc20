// The two kinds of expert MLP. Every FLOP count and every weight size depends on which one it is, so reports
// and kernels name it.
#pragma once
#include <cstdint>
#include <string>

#include "dropless/integer_math.hpp"

namespace dropless {

/// linear2: up [d_model, d_ff], activation, down [d_ff, d_model]. glu: gate and up [d_model, d_ff] each,
/// activation(gate) * up, down [d_ff, d_model].
enum class MlpKind : std::int32_t { linear2 = 0, glu = 1 };

/// Columns of the up product: d_ff, or gate and up side by side, 2 * d_ff.
DROPLESS_HOST_DEVICE constexpr std::int64_t up_columns(MlpKind kind, std::int64_t d_ff) {
  return kind == MlpKind::glu ? 2 * d_ff : d_ff;
}

/// "linear2" or "glu".
constexpr const char* mlp_kind_name(MlpKind kind) { return kind == MlpKind::glu ? "glu" : "linear2"; }

/// The kind of that name; throws Error for any other word.
inline MlpKind mlp_kind_from_name(const std::string& name) {
  for (const MlpKind kind : {MlpKind::linear2, MlpKind::glu})
    if (name == mlp_kind_name(kind)) return kind;
  throw Error("MLP kind", name, "linear2 or glu");
}

}  // namespace dropless
