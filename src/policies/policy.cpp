// From a policy's text to the policy: the table of families, the spellings they understand, and the default
// set.
#include "dropless/policy.hpp"

#include <algorithm>
#include <charconv>

#include "dropless/error.hpp"
#include "policies/families.hpp"

namespace dropless {
namespace {

struct Family {
  const char* name;
  const char* spelling;
  const char* meaning;
  Policy (*make)(const PolicyText&, const ModelShape&);
};

constexpr Family families[] = {
    {"dropless", "dropless[:sm90|:portable][:up|:down]", "this library's own kernels", make_dropless},
    {"block", "block:16|32|64|128|256", "block-sparse products (MegaBlocks and stk are 128)", make_block},
    {"deepgemm", "deepgemm", "DeepGEMM, contiguous layout", make_deepgemm},
    {"deepgemm-masked", "deepgemm-masked:64|128", "DeepGEMM, masked layout", make_deepgemm_masked},
    {"vllm", "vllm:B|auto", "vLLM's fused experts with blocks of B rows", make_vllm},
    {"tile", "tile:MxC", "CUTLASS grouped products, tiles of M rows in clusters of C", make_tile},
    {"torch", "torch[:up|:down]", "torch._grouped_mm on compute capability 9.0", make_torch},
    {"flat", "flat:M", "ScatterMoE, tiles of M rows over the sorted list", make_flat},
    {"sonic", "sonic[:nr]", "SonicMoE; nr rounds each expert's rows to its tile", make_sonic},
    {"max", "max", "every expert padded to the fullest one", make_max},
    {"capacity", "capacity:F:megablocks|megatron|megatron-pad|tutel",
     "capacity factor F: rows beyond it are dropped; START:STOP:STEP as F is a sweep", make_capacity},
    {"align", "align:M", "each expert's rows aligned to M, as scaled formats ask", make_align},
};

}  // namespace

PolicyText::PolicyText(const std::string& text, std::string spelling)
    : text_(text), spelling_(std::move(spelling)) {
  for (std::size_t begin = 0;;) {
    const std::size_t colon = std::min(text.find(':', begin), text.size());
    words_.push_back(text.substr(begin, colon - begin));
    if (colon == text.size()) break;
    begin = colon + 1;
  }
}

void PolicyText::expect_words(std::size_t least, std::size_t most) const {
  if (size() < least || size() > most) refuse();
}

std::int64_t PolicyText::size_from(const std::string& word) const {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < 1 || value > 1 << 20) refuse();
  return value;
}

void PolicyText::refuse() const { throw Error("policy", "'" + text_ + "'", spelling_); }

Policy make_policy(const std::string& name, const ModelShape& shape) {
  const std::string family_name = name.substr(0, name.find(':'));
  std::string names;
  for (const Family& family : families) {
    if (family_name == family.name) return family.make(PolicyText(name, family.spelling), shape);
    names += (names.empty() ? "" : ", ") + std::string(family.spelling);
  }
  throw Error("policy", "'" + name + "'", "one of " + names);
}

std::vector<PolicyForm> policy_forms() {
  std::vector<PolicyForm> forms;
  for (const Family& family : families) forms.push_back({family.spelling, family.meaning});
  return forms;
}

std::vector<std::string> default_policies(bool tokens_known) {
  std::vector<std::string> names{"dropless",
                                 "block:64",
                                 "block:128",
                                 "deepgemm",
                                 "vllm:64",
                                 "torch",
                                 "sonic",
                                 "sonic:nr",
                                 "flat:128",
                                 "capacity:1:megatron",
                                 "capacity:1.25:megatron-pad",
                                 "max"};
  if (tokens_known) names.insert(names.begin() + 5, "vllm:auto");
  return names;
}

}  // namespace dropless
