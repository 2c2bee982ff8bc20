// How every example ends.
#pragma once
#include <cstdio>
#include <exception>

/// The exit code of a program that is `run`: 0 where its result is right, 1 where it is wrong or a call was
/// refused, which is printed.
template <class Run>
int exit_code(Run run) {
  try {
    return run() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
