// How long an expert layer's products may take on a GPU: a roofline with wave rounding, whose three
// parameters can be fitted to measured products (calibration.hpp). A model, not a measurement.
//
// One product [rows, k] x [k, n] takes
//   overhead + max(bytes / (bandwidth_fraction * bandwidth), scheduled FLOPs / (peak_fraction * peak)),
// bytes being the weights of active experts and each computed row read and written once. The scheduled FLOPs
// are rounded up to whole waves: tiles of at most 128 rows by 256 columns, at least one an active expert,
// `sms` of them at a time. Padding costs arithmetic, no bytes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dropless/model_shape.hpp"

namespace dropless {

/// What a GPU can do at best. Peaks are dense, in GFLOP/s; bandwidth is in GB/s.
struct HardwareProfile {
  std::string name;
  double bf16_peak = 0, fp16_peak = 0, fp32_peak = 0;
  double bandwidth = 0;
  std::int64_t sms = 0;  ///< streaming multiprocessors
  std::string source;    ///< where each figure is from

  double peak(ElementType dtype) const {
    return dtype == ElementType::bf16 ? bf16_peak : dtype == ElementType::fp16 ? fp16_peak : fp32_peak;
  }
};

/// Every profile of data/hardware.json, in its order.
const std::vector<HardwareProfile>& known_hardware();

/// The known profile that `name` is or ends with as a word, capitals aside ("NVIDIA H200" is "H200"). Throws
/// Error naming the known ones otherwise.
HardwareProfile find_hardware(const std::string& name);

/// Unfitted, the parameters are the hardware's limits: no kernel is faster.
struct TimeModel {
  HardwareProfile hardware;
  double peak_fraction = 1, bandwidth_fraction = 1;  ///< of the published figures, reached in practice
  double overhead_us = 0;                            ///< of one product
  std::string fitted_to;                             ///< what the parameters were fitted to; empty: nothing
  std::string fitted_on = {};                        ///< name of the profile of the GPU measured for that
};

/// Throws Error unless peak, bandwidth, SMs and both fractions are positive and finite, the overhead not
/// negative. `dtype` chooses the peak.
void check_time_model(const TimeModel& model, ElementType dtype);

/// Rows of one batch as a policy computes them.
struct BatchWork {
  std::int64_t rows = 0;            ///< computed: kept and added ones
  std::int64_t scheduled_rows = 0;  ///< padding included
  std::int64_t active_experts = 0;  ///< experts with a row
};

/// Microseconds. memory_us and compute_us are the two bounds, without overhead; us is the model's time.
struct ModelledTime {
  double memory_us = 0, compute_us = 0, us = 0;

  bool bound_by_memory() const { return memory_us > compute_us; }
};

/// One product of a batch; k, n >= 1. No time where nothing is scheduled.
ModelledTime product_time(const TimeModel& model, const BatchWork& work, std::int64_t k, std::int64_t n,
                          ElementType dtype);

/// Both forward products of a batch, one after the other: each member is the sum of the two.
ModelledTime batch_time(const TimeModel& model, const BatchWork& work, const ModelShape& shape);

}  // namespace dropless
