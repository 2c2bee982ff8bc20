// Loops that are built for newer cores too, for the loader to pick from: the x86-64 baseline has no 32-bit
// maximum and no wide vectors.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define DROPLESS_VECTOR_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define DROPLESS_VECTOR_CLONES
#endif

// For what such a loop calls, which must be built with it.
#define DROPLESS_INLINE inline __attribute__((always_inline))
