// wgmma: a warpgroup multiplies a 64 x 16 slice of A by a 16 x N slice of B, both in shared memory, into
// float registers. N is a multiple of 16 up to 160, 192 or 256. Thread t of the warpgroup holds, for column
// group j of 8, d[4 j + {0, 1}] at row 16 (t / 32) + (t % 32) / 4 and columns 8 j + 2 (t % 4) + {0, 1}, and
// d[4 j + {2, 3}] eight rows below.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "sm90/ptx.cuh"

namespace dropless::sm90 {

constexpr int k_block = 64;                      // k of one pipeline stage: 128 bytes, the swizzle's span
constexpr int subtile_bytes = 64 * k_block * 2;  // a box of 64 x 64 elements in shared memory

/// Descriptor of an operand that TMA laid out with 128-byte swizzle in boxes of 64 columns. mn_major: rows of
/// the box run along k (64 MN elements across, boxes `subtile_bytes` apart along MN); else rows run along MN,
/// 64 k across. Either way eight box rows are 1024 bytes.
template <bool mn_major>
__device__ std::uint64_t operand_descriptor(const void* box) {
  constexpr std::uint64_t leading = mn_major ? subtile_bytes / 16 : 1, stride = 1024 / 16, swizzle_128 = 1;
  return ((shared_address(box) & 0x3ffff) >> 4) | leading << 16 | stride << 32 | swizzle_128 << 62;
}
/// What to add to a descriptor to move 16 along k.
template <bool mn_major>
constexpr std::uint64_t descriptor_k16 = mn_major ? 2048 / 16 : 32 / 16;

__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int pending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

#define DROPLESS_REGISTERS_8(d, i)                                                            \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define DROPLESS_REGISTERS_16(d, i) DROPLESS_REGISTERS_8(d, i), DROPLESS_REGISTERS_8(d, i + 8)
#define DROPLESS_REGISTERS_32(d, i) DROPLESS_REGISTERS_16(d, i), DROPLESS_REGISTERS_16(d, i + 16)
#define DROPLESS_NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define DROPLESS_NAMES_16 DROPLESS_NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define DROPLESS_NAMES_24 DROPLESS_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define DROPLESS_NAMES_32 DROPLESS_NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define DROPLESS_NAMES_40 DROPLESS_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define DROPLESS_NAMES_48 DROPLESS_NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define DROPLESS_NAMES_56 DROPLESS_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define DROPLESS_NAMES_64 DROPLESS_NAMES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define DROPLESS_NAMES_72 DROPLESS_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define DROPLESS_NAMES_80 DROPLESS_NAMES_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define DROPLESS_NAMES_96 \
  DROPLESS_NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define DROPLESS_NAMES_128                                                                               \
  DROPLESS_NAMES_96                                                                                      \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, " \
  "%113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
// n: the instruction's N; names: its n / 2 accumulators; a, b, scale, ta, tb: the operands that follow them.
#define DROPLESS_WGMMA(type, n, names, a, b, scale, ta, tb, ...)                                      \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " scale ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n \
               "k16.f32." type "." type " {" names "}, " a ", " b ", p, 1, 1, " ta ", " tb ";\n}\n"   \
               : __VA_ARGS__                                                                          \
               : "l"(a_descriptor), "l"(b_descriptor), "r"(accumulate), "n"(a_mn_major), "n"(b_mn_major))
#define DROPLESS_WGMMA_SIZES(type)                                                                           \
  if constexpr (n == 16)                                                                                     \
    DROPLESS_WGMMA(type, 16, DROPLESS_NAMES_8, "%8", "%9", "%10", "%11", "%12", DROPLESS_REGISTERS_8(d, 0)); \
  if constexpr (n == 32)                                                                                     \
    DROPLESS_WGMMA(type, 32, DROPLESS_NAMES_16, "%16", "%17", "%18", "%19", "%20",                           \
                   DROPLESS_REGISTERS_16(d, 0));                                                             \
  if constexpr (n == 48)                                                                                     \
    DROPLESS_WGMMA(type, 48, DROPLESS_NAMES_24, "%24", "%25", "%26", "%27", "%28",                           \
                   DROPLESS_REGISTERS_16(d, 0), DROPLESS_REGISTERS_8(d, 16));                                \
  if constexpr (n == 64)                                                                                     \
    DROPLESS_WGMMA(type, 64, DROPLESS_NAMES_32, "%32", "%33", "%34", "%35", "%36",                           \
                   DROPLESS_REGISTERS_32(d, 0));                                                             \
  if constexpr (n == 80)                                                                                     \
    DROPLESS_WGMMA(type, 80, DROPLESS_NAMES_40, "%40", "%41", "%42", "%43", "%44",                           \
                   DROPLESS_REGISTERS_32(d, 0), DROPLESS_REGISTERS_8(d, 32));                                \
  if constexpr (n == 96)                                                                                     \
    DROPLESS_WGMMA(type, 96, DROPLESS_NAMES_48, "%48", "%49", "%50", "%51", "%52",                           \
                   DROPLESS_REGISTERS_32(d, 0), DROPLESS_REGISTERS_16(d, 32));                               \
  if constexpr (n == 112)                                                                                    \
    DROPLESS_WGMMA(type, 112, DROPLESS_NAMES_56, "%56", "%57", "%58", "%59", "%60",                          \
                   DROPLESS_REGISTERS_32(d, 0), DROPLESS_REGISTERS_16(d, 32), DROPLESS_REGISTERS_8(d, 48));  \
  if constexpr (n == 128)                                                                                    \
    DROPLESS_WGMMA(type, 128, DROPLESS_NAMES_64, "%64", "%65", "%66", "%67", "%68",                          \
                   DROPLESS_REGISTERS_32(d, 0), DROPLESS_REGISTERS_32(d, 32));                               \
  if constexpr (n == 144)                                                                                    \
    DROPLESS_WGMMA(type, 144, DROPLESS_NAMES_72, "%72", "%73", "%74", "%75", "%76",                          \
                   DROPLESS_REGISTERS_32(d, 0), DROPLESS_REGISTERS_32(d, 32), DROPLESS_REGISTERS_8(d, 64));  \
  if constexpr (n == 160)                                                                                    \
    DROPLESS_WGMMA(type, 160, DROPLESS_NAMES_80, "%80", "%81", "%82", "%83", "%84",                          \
                   DROPLESS_REGISTERS_32(d, 0), DROPLESS_REGISTERS_32(d, 32), DROPLESS_REGISTERS_16(d, 64)); \
  if constexpr (n == 192)                                                                                    \
    DROPLESS_WGMMA(type, 192, DROPLESS_NAMES_96, "%96", "%97", "%98", "%99", "%100",                         \
                   DROPLESS_REGISTERS_32(d, 0), DROPLESS_REGISTERS_32(d, 32), DROPLESS_REGISTERS_32(d, 64)); \
  if constexpr (n == 256)                                                                                    \
  DROPLESS_WGMMA(type, 256, DROPLESS_NAMES_128, "%128", "%129", "%130", "%131", "%132",                      \
                 DROPLESS_REGISTERS_32(d, 0), DROPLESS_REGISTERS_32(d, 32), DROPLESS_REGISTERS_32(d, 64),    \
                 DROPLESS_REGISTERS_32(d, 96))

/// d (+)= A B for one 64 x n x 16 step; accumulate == 0 starts from zero.
template <class Element, int n, bool a_mn_major, bool b_mn_major, int size>
__device__ __forceinline__ void wgmma(float (&d)[size], std::uint64_t a_descriptor,
                                      std::uint64_t b_descriptor, std::int32_t accumulate) {
  static_assert(n % 16 == 0 && n >= 16 && (n <= 160 || n == 192 || n == 256) && n <= 2 * size);
  if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
    DROPLESS_WGMMA_SIZES("bf16");
  } else {
    static_assert(std::is_same_v<Element, __half>);
    DROPLESS_WGMMA_SIZES("f16");
  }
}

#undef DROPLESS_WGMMA_SIZES
#undef DROPLESS_WGMMA
#undef DROPLESS_NAMES_8
#undef DROPLESS_NAMES_16
#undef DROPLESS_NAMES_24
#undef DROPLESS_NAMES_32
#undef DROPLESS_NAMES_40
#undef DROPLESS_NAMES_48
#undef DROPLESS_NAMES_56
#undef DROPLESS_NAMES_64
#undef DROPLESS_NAMES_72
#undef DROPLESS_NAMES_80
#undef DROPLESS_NAMES_96
#undef DROPLESS_NAMES_128
#undef DROPLESS_REGISTERS_8
#undef DROPLESS_REGISTERS_16
#undef DROPLESS_REGISTERS_32

}  // namespace dropless::sm90
