// A number above zero, refused in words: CLI11's own check names its upper bound, a number of 309 digits.
#pragma once
#include <CLI/CLI.hpp>

#include <string>

inline const CLI::Validator above_zero(
    [](std::string& text) {
      double value = 0;
      const bool good = CLI::detail::lexical_cast(text, value) && value > 0;
      return good ? std::string() : text + " is not a number above 0";
    },
    "> 0");
