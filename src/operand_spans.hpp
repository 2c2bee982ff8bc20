// What a call reads and what it writes, and the refusal of an output in the memory of any other operand.
#pragma once
#include <string>
#include <vector>

#include "matrix_span.hpp"

namespace dropless {

class OperandSpans {
 public:
  void reads(const std::string& name, const MatrixSpan& span) { inputs_.push_back({name, span}); }
  void writes(const std::string& name, const MatrixSpan& span) { outputs_.push_back({name, span}); }

  /// `count` elements; null: the operand is left out.
  void reads_array(const std::string& name, const void* data, std::int64_t count, std::int64_t bytes) {
    reads(name, array(name, data, count, bytes));
  }
  void writes_array(const std::string& name, const void* data, std::int64_t count, std::int64_t bytes) {
    writes(name, array(name, data, count, bytes));
  }

  /// Throws Error where an output shares memory with an input or with another output.
  void check() const {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      for (const Operand& input : inputs_) refuse_overlap(outputs_[i], input);
      for (std::size_t j = 0; j < i; ++j) refuse_overlap(outputs_[i], outputs_[j]);
    }
  }

 private:
  struct Operand {
    std::string name;
    MatrixSpan span;
  };
  static MatrixSpan array(const std::string& name, const void* data, std::int64_t count, std::int64_t bytes) {
    if (data == nullptr || count == 0) return {};
    require_memory(data, true, bytes, name);
    const std::int64_t total = checked_product(count, bytes, name.c_str());
    return {data, 1, total, total};
  }
  static void refuse_overlap(const Operand& output, const Operand& other) {
    check_no_overlap(output.span, output.name, other.span, other.name);
  }

  std::vector<Operand> inputs_, outputs_;
};

}  // namespace dropless
