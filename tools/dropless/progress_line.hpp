// Progress on stderr for work that takes longer than two seconds, where stderr is a terminal.
#pragma once
#include <unistd.h>

#include <chrono>
#include <cstdio>

/// Pass `ProgressLine::update` as the dropless::Progress and the object as its context. Clears the line at
/// the end.
class ProgressLine {
 public:
  ProgressLine() = default;
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() {
    if (shown_percent_ >= 0) std::fputs("\r\033[K", stderr);
  }

  static void update(double done, void* context) { static_cast<ProgressLine*>(context)->show(done); }

 private:
  void show(double done) {
    const int percent = static_cast<int>(100 * done);
    if (percent == shown_percent_ || !terminal_) return;
    if (std::chrono::steady_clock::now() - start_ < std::chrono::seconds(2)) return;
    shown_percent_ = percent;
    std::fprintf(stderr, "\rreading the trace: %d %%", percent);
  }

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  int shown_percent_ = -1;
};
