// The families of policies, one function each: from the words after the family's name to a ready policy.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dropless/policy.hpp"

namespace dropless {

/// A policy's text cut at its colons, "capacity:1.25:tutel", with the spelling to quote when it is refused.
class PolicyText {
 public:
  PolicyText(const std::string& text, std::string spelling);

  const std::string& text() const { return text_; }
  /// Words after the family's name.
  std::size_t size() const { return words_.size() - 1; }
  const std::string& word(std::size_t i) const { return words_[i + 1]; }
  /// Refuses any number of words after the family's name outside [least, most].
  void expect_words(std::size_t least, std::size_t most) const;
  /// A whole number in [1, 2^20]; anything else is refused.
  std::int64_t size_from(const std::string& word) const;
  /// Throws Error quoting the text and the spellings that are understood.
  [[noreturn]] void refuse() const;

 private:
  std::string text_, spelling_;
  std::vector<std::string> words_;
};

/// The cost of a policy that keeps every row and launches what it schedules.
inline PolicyCost keep_all(const BatchRows& batch, std::int64_t scheduled_rows,
                           std::optional<std::int64_t> metadata_bytes = {}) {
  return {scheduled_rows, scheduled_rows, batch.rows(), 0, 0, metadata_bytes};
}

Policy make_align(const PolicyText& text, const ModelShape& shape);
Policy make_block(const PolicyText& text, const ModelShape& shape);
Policy make_capacity(const PolicyText& text, const ModelShape& shape);
Policy make_deepgemm(const PolicyText& text, const ModelShape& shape);
Policy make_deepgemm_masked(const PolicyText& text, const ModelShape& shape);
Policy make_dropless(const PolicyText& text, const ModelShape& shape);
Policy make_flat(const PolicyText& text, const ModelShape& shape);
Policy make_max(const PolicyText& text, const ModelShape& shape);
Policy make_sonic(const PolicyText& text, const ModelShape& shape);
Policy make_tile(const PolicyText& text, const ModelShape& shape);
Policy make_torch(const PolicyText& text, const ModelShape& shape);
Policy make_vllm(const PolicyText& text, const ModelShape& shape);

}  // namespace dropless
