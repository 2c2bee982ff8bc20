// What a figure depends on besides the code: the GPU, its driver and libraries, and its clocks and power
// while it was measured. Clocks and power come from the driver's management library (NVML), which is opened
// at run time and may be absent.
#pragma once
#include <memory>
#include <optional>
#include <string>

namespace dropless::benchmark {

struct GpuDescription {
  std::string name;
  int multiprocessors = 0;
  int l2_bytes = 0;
  int cuda_driver_version = 0;   ///< the CUDA version that the driver supports: major * 1000 + minor * 10
  int cuda_runtime_version = 0;  ///< the CUDA runtime that this program was built with
  std::string driver;            ///< the driver's own version; empty without NVML
};

struct GpuSample {
  unsigned sm_mhz = 0;
  unsigned memory_mhz = 0;
  double watts = 0;
  double watts_limit = 0;
  unsigned celsius = 0;
};

class GpuState {
 public:
  /// The calling thread's current device.
  GpuState();
  ~GpuState();
  GpuState(const GpuState&) = delete;
  GpuState& operator=(const GpuState&) = delete;

  const GpuDescription& description() const { return description_; }
  /// Clocks, power and temperature at this moment; nothing without NVML.
  std::optional<GpuSample> sample() const;

 private:
  class Nvml;
  std::unique_ptr<Nvml> nvml_;
  GpuDescription description_;
};

/// "13.0" of 13000.
std::string cuda_version_text(int version);

}  // namespace dropless::benchmark
