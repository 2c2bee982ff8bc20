// Which argument a call refuses.
#pragma once
#include <string>

#include "dropless/error.hpp"

namespace dropless::test {

/// The argument of the Error that `call` throws; "nothing" where it throws none.
template <class Call>
std::string refused_argument(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.argument();
  }
  return "nothing";
}

}  // namespace dropless::test
