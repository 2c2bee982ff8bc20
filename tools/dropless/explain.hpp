// The text of `dropless report --explain`.
#pragma once
#include <string>

/// Of a policy ("vllm:64"), a figure by its name or label ("gini", "max / mean"), what is both ("max"), or of
/// "policies", "metrics" or "metadata". Throws dropless::Error for anything else.
std::string explanation(const std::string& what);
