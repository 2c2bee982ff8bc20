// Thin wrappers over the Hopper instructions that cuda::ptx lacks, and the few of its own that the kernels
// use in one fixed form. Nothing here decides anything.
#pragma once
#include <cuda.h>

#include <cuda/ptx>

#include <cstdint>

namespace dropless::sm90 {

namespace ptx = cuda::ptx;

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void wait(std::uint64_t& barrier, std::uint32_t parity) {
  while (!ptx::mbarrier_try_wait_parity(&barrier, parity)) {
  }
}

/// Whether a wait would end at once.
__device__ inline bool is_over(std::uint64_t& barrier, std::uint32_t parity) {
  return ptx::mbarrier_test_wait_parity(&barrier, parity);
}

__device__ inline void expect_bytes(std::uint64_t& barrier, std::uint32_t bytes) {
  ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &barrier, bytes);
}

template <int rank>
__device__ inline void load_box(void* destination, const CUtensorMap* map, const std::int32_t (&at)[rank],
                                std::uint64_t& barrier) {
  ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, destination, map, at, &barrier);
}

/// load_box into both blocks of a pair, each at the places where this block's are.
__device__ inline void load_box_for_pair(void* destination, const CUtensorMap* map,
                                         const std::int32_t (&at)[3], std::uint64_t& barrier) {
  ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, destination, map, at, &barrier,
                            std::uint16_t{0b11});
}

/// For data that pass L2 once: it gives them up first.
__device__ inline std::uint64_t evict_first_policy() {
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// load_box for data that the kernel reads once.
__device__ inline void load_box_once(void* destination, const CUtensorMap* map, const std::int32_t (&at)[3],
                                     std::uint64_t& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared_address(destination)),
      "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(shared_address(&barrier)), "l"(evict_first_policy())
      : "memory");
}

/// load_box_for_pair for data that the kernel reads once.
__device__ inline void load_box_for_pair_once(void* destination, const CUtensorMap* map,
                                              const std::int32_t (&at)[3], std::uint64_t& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6, %7;" ::"r"(shared_address(destination)),
      "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(shared_address(&barrier)), "h"(std::uint16_t{0b11}),
      "l"(evict_first_policy())
      : "memory");
}

/// Waits until all threads of the cluster that have not ended are here.
__device__ inline void wait_for_cluster() {
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
}

/// This block's number within its cluster.
__device__ inline std::uint32_t cluster_rank() { return ptx::get_sreg_cluster_ctarank(); }

/// Arrives on block `rank`'s barrier at the place of this block's. Without an order of memory at the scope of
/// the cluster, which nvcc turns into a fence of the whole GPU and a flush of L1: nothing that this thread
/// wrote is read because of it, and what TMA brings is counted on a barrier of its own.
__device__ inline void arrive_at(std::uint64_t& barrier, std::uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(shared_address(&barrier)),
      "r"(rank)
      : "memory");
}

/// Writes a value into block `rank`'s shared memory at the place of `destination`; its four bytes then count
/// on the barrier there.
__device__ inline void send(std::uint32_t& destination, std::uint32_t value, std::uint64_t& barrier,
                            std::uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 there, barrier;\nmapa.shared::cluster.u32 there, %0, %3;\n"
      "mapa.shared::cluster.u32 barrier, %2, %3;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [there], %1, [barrier];\n}\n" ::"r"(
          shared_address(&destination)),
      "r"(value), "r"(shared_address(&barrier)), "r"(rank)
      : "memory");
}

/// True for one thread of a warp; all of its threads must call it together. The compiler knows that this
/// thread goes on alone. After any other choice (of the first lane, say) it puts a loop over the warp's
/// threads around every TMA call, some 60 cycles each, which a loader of six boxes a stage does not have:
/// without the loops weight gradients are 1 to 2 % faster on an H200.
__device__ __forceinline__ bool elected() {
  std::uint32_t is_elected;
  asm volatile(
      "{\n.reg .pred is_elected;\nelect.sync _|is_elected, 0xffffffff;\nselp.u32 %0, 1, 0, is_elected;\n}"
      : "=r"(is_elected));
  return is_elected != 0;
}

/// This thread's lane alone.
__device__ inline std::uint32_t own_lane() {
  std::uint32_t lanes;
  asm("mov.u32 %0, %%lanemask_eq;" : "=r"(lanes));
  return lanes;
}

/// The OR over `lanes`: a value that all of them hold, or one of them where the others hold 0. The compiler
/// then knows that they hold the same, which it cannot tell of a load, a shuffle or an atomic's result: wgmma
/// and TMA take their operands from uniform registers, and would get others lane by lane.
__device__ inline std::uint32_t uniform(std::uint32_t value, std::uint32_t lanes = 0xffffffff) {
  return __reduce_or_sync(lanes, value);
}

/// Copies 16 bytes of global memory into shared memory, without waiting.
__device__ inline void copy_16_bytes(std::uint32_t destination, const void* source) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(destination), "l"(source) : "memory");
}
__device__ inline void zero_16_bytes(std::uint32_t destination) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(destination), "r"(0) : "memory");
}
/// Ends a group of copies; waits until at most `pending` groups of this thread have not landed.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/// Brings a tensor map that lies in the kernel's parameters close, before the first use waits for it.
__device__ inline void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/// Most bytes that fetch_into_l2 takes: the instruction counts 16 bytes in 16 bits.
constexpr std::int64_t most_bytes_fetched = 0xffff * 16;

/// Fetches bytes into L2, which gives them up last: among many writes it otherwise loses a quarter of them
/// again before they are loaded. Address and size are multiples of 16.
__device__ inline void fetch_into_l2(const void* data, std::uint32_t bytes) {
  std::uint64_t evict_last_policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(evict_last_policy));
  asm volatile("cp.async.bulk.prefetch.L2.global.L2::cache_hint [%0], %1, %2;" ::"l"(data), "r"(bytes),
               "l"(evict_last_policy)
               : "memory");
}

template <int rank>
__device__ inline void store_box(const CUtensorMap* map, const std::int32_t (&at)[rank], const void* source) {
  ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, map, at, source);
}

/// store_box for data that should leave L2 soon.
__device__ inline void store_box_once(const CUtensorMap* map, const std::int32_t (&at)[3],
                                      const void* source) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group.L2::cache_hint "
      "[%0, {%1, %2, %3}], [%4], %5;" ::"l"(map),
      "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(shared_address(source)), "l"(evict_first_policy())
      : "memory");
}
__device__ inline void store_box_once(const CUtensorMap* map, const std::int32_t (&at)[4],
                                      const void* source) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group.L2::cache_hint "
      "[%0, {%1, %2, %3, %4}], [%5], %6;" ::"l"(map),
      "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(shared_address(source)), "l"(evict_first_policy())
      : "memory");
}

__device__ inline void store_box_once(const CUtensorMap* map, const std::int32_t (&at)[5],
                                      const void* source) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group.L2::cache_hint "
      "[%0, {%1, %2, %3, %4, %5}], [%6], %7;" ::"l"(map),
      "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]), "r"(shared_address(source)),
      "l"(evict_first_policy())
      : "memory");
}

template <int registers>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

template <bool transpose>
__device__ inline void store_matrices(std::uint32_t address, const std::uint32_t (&r)[4]) {
  if constexpr (transpose)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]),
                 "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}

template <bool transpose>
__device__ inline void load_matrices(std::uint32_t address, std::uint32_t (&r)[4]) {
  if constexpr (transpose)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

}  // namespace dropless::sm90
