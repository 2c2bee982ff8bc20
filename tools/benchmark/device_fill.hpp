// What a benchmark does to operands on the device: random values before timing (zeros would draw less power
// and so run faster than real data), and the distance of a result from a reference.
#pragma once
#include <cstdint>

#include "dropless/element_type.hpp"
#include "dropless/stream.hpp"

namespace dropless::benchmark {

/// Fills `elements` bf16 or fp16 elements at `data` (4-byte aligned) with values of zero mean and the given
/// standard deviation, close to a normal distribution; the same seed gives the same values.
void fill_random(void* data, std::int64_t elements, ElementType type, std::uint32_t seed,
                 float standard_deviation, Stream stream);

/// Relative Frobenius distance |result - reference| / |reference| of two arrays of bf16 or fp16 elements; NaN
/// where either holds a NaN. Waits for the stream.
double relative_error(const void* result, const void* reference, std::int64_t elements, ElementType type,
                      Stream stream);

}  // namespace dropless::benchmark
