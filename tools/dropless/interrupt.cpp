// The signal handler; it calls nothing but what is safe in one.
#include "interrupt.hpp"

#include <unistd.h>

#include <csignal>

#include "output_file.hpp"

namespace {

bool shows_progress = false;

extern "C" void end_program(int signal) {
  dropless::remove_unfinished_output();
  constexpr char clear_line[] = "\r\033[K";
  if (shows_progress && write(STDERR_FILENO, clear_line, sizeof clear_line - 1) < 0) _exit(128 + signal);
  _exit(128 + signal);
}

}  // namespace

void end_cleanly_when_interrupted() {
  shows_progress = isatty(STDERR_FILENO) != 0;
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction action = {};
    if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = end_program;
    sigaction(signal, &action, nullptr);
  }
}
