// Keys and values in the paged cache: storing one head of one token, reading sixteen.
#pragma once
#include "simd.h"

// The cache of a layer, [blocks * block_size][2 * kv_heads][head_dim], of a token all keys first: numbers of the model's
// own type, or FP8 codes (E4M3, Micikevicius et al. 2022) with a power of two, in bfloat16, for each head of each token.
struct LayerCache {
    void* numbers;
    uint16_t* scales;  // null: numbers are of the model's type
};

constexpr int FP8_BIAS_DIFFERENCE = 127 - 7;  // a code's bits at their places in a bfloat16 mean a number smaller by it
constexpr int FP8_LARGEST_EXPONENT = 8;       // numbers below 2^8 have codes of full precision, up to 448

INLINE float power_of_two(int exponent) {
    uint32_t bits = (uint32_t)(exponent + 127) << 23;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// The same codes and factor as llmtorch.float8.narrow.
static inline void store_fp8(const float* x, int dim, uint8_t* codes, uint16_t* scale) {
    float most = 0.0f;
    for (int i = 0; i < dim; i++) most = __builtin_fmaxf(most, __builtin_fabsf(x[i]));
    uint32_t bits;
    std::memcpy(&bits, &most, sizeof bits);
    int shift = bits ? (int)(bits >> 23) - 126 - FP8_LARGEST_EXPONENT : -FP8_LARGEST_EXPONENT;
    shift = shift < -120 ? -120 : shift > 7 ? 7 : shift;
    float factor = power_of_two(-shift);
    for (int i = 0; i < dim; i++) {
        float scaled = __builtin_fminf(__builtin_fabsf(x[i]) * factor, 448.0f);
        uint32_t number, small = (uint32_t)__builtin_rintf(scaled * 512.0f);
        std::memcpy(&number, &scaled, sizeof number);
        number += 0x7ffff + ((number >> 20) & 1);
        uint32_t normal = (number >> 20) - (FP8_BIAS_DIFFERENCE << 3);
        codes[i] = (uint8_t)((scaled < 0.015625f ? small : normal) | (x[i] < 0.0f ? 0x80 : 0));
    }
    *scale = to_bf16(power_of_two(shift + FP8_BIAS_DIFFERENCE));
}

// Exact in bfloat16 as in float32, since the factor is a power of two.
INLINE float from_fp8(uint8_t code, float factor) {
    return from_bf16((uint16_t)((code & 0x7f) << 4 | (code & 0x80) << 8)) * factor;
}

template <class T>
INLINE void store_head(const LayerCache& cache, size_t slot, int heads, int head, int dim, const float* x) {
    size_t at = slot * heads + head;
    if (cache.scales) {
        store_fp8(x, dim, (uint8_t*)cache.numbers + at * dim, cache.scales + at);
    } else {
        auto* numbers = (typename T::Number*)cache.numbers + at * dim;
        for (int i = 0; i < dim; i++) numbers[i] = T::narrow(x[i]);
    }
}

// One head of one token as numbers of the model's type. `room` is used when they have to be widened.
template <class T>
INLINE const typename T::Number* head_of(
    const LayerCache& cache, size_t slot, int heads, int head, int dim, typename T::Number* room
) {
    size_t at = slot * heads + head;
    if (!cache.scales) return (const typename T::Number*)cache.numbers + at * dim;
    const uint8_t* codes = (const uint8_t*)cache.numbers + at * dim;
    float factor = from_bf16(cache.scales[at]);
    for (int i = 0; i < dim; i++) room[i] = T::narrow(from_fp8(codes[i], factor));
    return room;
}

// Asks for one head of one token ahead of its use: heads of neighbouring tokens lie too far apart for the processor to
// see what comes next. Into the second cache, which has more requests under way than the first.
template <class T> INLINE void prefetch_head(const LayerCache& cache, size_t slot, int heads, int head, int dim) {
    const size_t number = cache.scales ? 1 : sizeof(typename T::Number);
    const char* at = (const char*)cache.numbers + (slot * heads + head) * dim * number;
    for (size_t byte = 0; byte < dim * number; byte += 64) __builtin_prefetch(at + byte, 0, 2);
}
