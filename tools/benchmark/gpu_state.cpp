// Asks the CUDA runtime what it knows and NVML, where it can be opened, for the rest.
#include "gpu_state.hpp"

#include <dlfcn.h>

#include <array>

#include "cuda_check.hpp"

namespace dropless::benchmark {

/// The few NVML calls that are needed, declared here as the documented C interface states them, since the
/// library comes with the driver and its header with neither the driver nor every toolkit. Every call returns
/// 0 on success.
class GpuState::Nvml {
 public:
  explicit Nvml(const char* pci_bus_id) : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    const auto initialise = function<int()>("nvmlInit_v2");
    const auto find = function<int(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
    if (initialise == nullptr || find == nullptr || initialise() != 0) return;
    if (find(pci_bus_id, &device_) != 0) device_ = nullptr;
  }
  ~Nvml() {
    if (library_ == nullptr) return;
    if (const auto shut_down = function<int()>("nvmlShutdown"); shut_down != nullptr) shut_down();
    dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool available() const { return device_ != nullptr; }

  std::string driver_version() const {
    std::array<char, 96> text{};
    const auto call = function<int(char*, unsigned)>("nvmlSystemGetDriverVersion");
    if (!available() || call == nullptr || call(text.data(), static_cast<unsigned>(text.size())) != 0)
      return "";
    return text.data();
  }

  GpuSample sample() const {
    constexpr int sm_clock = 1, memory_clock = 2, gpu_temperature = 0;
    GpuSample result;
    result.sm_mhz = query("nvmlDeviceGetClockInfo", sm_clock);
    result.memory_mhz = query("nvmlDeviceGetClockInfo", memory_clock);
    result.celsius = query("nvmlDeviceGetTemperature", gpu_temperature);
    result.watts = 1e-3 * query("nvmlDeviceGetPowerUsage");
    result.watts_limit = 1e-3 * query("nvmlDeviceGetEnforcedPowerLimit");
    return result;
  }

 private:
  template <class Signature>
  Signature* function(const char* name) const {
    return reinterpret_cast<Signature*>(dlsym(library_, name));
  }
  /// A quantity of the device, chosen by `which` where the call takes a choice; 0 where it cannot be had.
  template <class... Which>
  unsigned query(const char* name, Which... which) const {
    unsigned value = 0;
    const auto call = function<int(void*, Which..., unsigned*)>(name);
    return call != nullptr && call(device_, which..., &value) == 0 ? value : 0;
  }

  void* library_;
  void* device_ = nullptr;
};

GpuState::GpuState() {
  int device = 0;
  DROPLESS_CUDA_CHECK(cudaGetDevice(&device));
  cudaDeviceProp properties{};
  DROPLESS_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  std::array<char, 32> pci_bus_id{};
  DROPLESS_CUDA_CHECK(cudaDeviceGetPCIBusId(pci_bus_id.data(), static_cast<int>(pci_bus_id.size()), device));
  nvml_ = std::make_unique<Nvml>(pci_bus_id.data());
  description_.name = properties.name;
  description_.multiprocessors = properties.multiProcessorCount;
  description_.l2_bytes = properties.l2CacheSize;
  description_.driver = nvml_->driver_version();
  DROPLESS_CUDA_CHECK(cudaDriverGetVersion(&description_.cuda_driver_version));
  DROPLESS_CUDA_CHECK(cudaRuntimeGetVersion(&description_.cuda_runtime_version));
}

GpuState::~GpuState() = default;

std::optional<GpuSample> GpuState::sample() const {
  if (!nvml_->available()) return std::nullopt;
  return nvml_->sample();
}

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace dropless::benchmark
