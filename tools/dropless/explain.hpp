// The text of `dropless report --explain`.
#pragma once
#include <string>

/// Of a policy ("vllm:64"), a figure ("gini"), or of "policies", "metrics" or "metadata". Throws
/// dropless::Error for anything else.
std::string explanation(const std::string& what);
