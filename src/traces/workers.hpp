// Runs one function on several threads, the calling thread among them, and passes their errors on.
#pragma once
#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

namespace dropless::traces {

/// Calls work(0) on this thread and work(1) .. work(workers - 1) on others; returns when all are done, and
/// rethrows the error of the lowest-numbered worker that had one.
template <class Work>
void run_workers(int workers, Work work) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(workers));
  const auto guarded = [&](int worker) {
    try {
      work(worker);
    } catch (...) {
      errors[static_cast<std::size_t>(worker)] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (int worker = 1; worker < workers; ++worker) threads.emplace_back(guarded, worker);
  guarded(0);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

/// Threads for work that a caller gave no number for: opening a file.
inline int default_workers() {
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 8u));
}

}  // namespace dropless::traces
