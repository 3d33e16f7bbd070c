// Sixteen numbers at a time, for every processor the kernels are compiled for: GCC and Clang make two AVX2 registers of
// what is one of AVX-512.
#pragma once
#include <cstdint>
#include <cstring>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

typedef float f32x16 __attribute__((vector_size(64)));
typedef int32_t i32x16 __attribute__((vector_size(64)));

constexpr int LANES = 16;

constexpr int padded(int count, int unit) { return (count + unit - 1) / unit * unit; }

INLINE f32x16 load(const float* p) {
    f32x16 v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

INLINE void store(float* p, f32x16 v) { std::memcpy(p, &v, sizeof v); }

INLINE f32x16 all(float x) { return x - f32x16{}; }

INLINE i32x16 all_int(int32_t x) { return x - i32x16{}; }

INLINE f32x16 choose(i32x16 mask, f32x16 yes, f32x16 no) { return (f32x16)((mask & (i32x16)yes) | (~mask & (i32x16)no)); }

INLINE f32x16 larger(f32x16 a, f32x16 b) { return choose(a > b, a, b); }

// Halves are folded onto each other, so the order of the additions never depends on the processor.
INLINE float sum(f32x16 v) {
    float x[LANES];
    store(x, v);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) x[i] += x[i + half];
    return x[0];
}

INLINE float largest(f32x16 v) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)v);
#else
    float x[LANES];
    store(x, v);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) x[i] = x[i] > x[i + half] ? x[i] : x[i + half];
    return x[0];
#endif
}

INLINE f32x16 to_float(i32x16 v) { return __builtin_convertvector(v, f32x16); }

// e to the power of x, to one or two units of the last place; 0 below -87. Range reduction and polynomial as in Cephes.
INLINE f32x16 exponential(f32x16 x) {
    const f32x16 magic = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to a whole number
    i32x16 under = x < all(-87.0f);
    x = choose(x > all(88.0f), all(88.0f), x);
    x = choose(under, all(-87.0f), x);
    f32x16 shifted = x * 1.44269504088896341f + magic;
    f32x16 n = shifted - magic;
    f32x16 r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    f32x16 p = all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    i32x16 exponent = ((i32x16)shifted - (i32x16)magic) << 23;
    return choose(under, f32x16{}, (f32x16)((i32x16)p + exponent));
}

INLINE f32x16 silu(f32x16 x) { return x / (1.0f + exponential(-x)); }

// bfloat16: the upper half of a float, rounded to even.
INLINE uint16_t to_bf16(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)((bits >> 16) | 64);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

INLINE float from_bf16(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE void store_bf16(uint16_t* p, f32x16 v) {
#if defined(__AVX512BF16__)
    __m256bh narrow = _mm512_cvtneps_pbh((__m512)v);
    std::memcpy(p, &narrow, 32);
#else
    for (int i = 0; i < LANES; i++) p[i] = to_bf16(v[i]);
#endif
}

INLINE f32x16 load_bf16(const uint16_t* p) {
#if defined(__AVX512F__)
    __m256i narrow;
    std::memcpy(&narrow, p, 32);
    return (f32x16)_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16);
#else
    f32x16 v;
    for (int i = 0; i < LANES; i++) v[i] = from_bf16(p[i]);
    return v;
#endif
}

// 16 x 16 numbers of 32 bits, in place: each pass moves one bit of the row's number to the column's.
INLINE void transpose(f32x16* rows) {
    for (int pass = 0; pass < 4; pass++) {
        f32x16 next[16];
        for (int i = 0; i < 8; i++) {
            f32x16 a = rows[i], b = rows[i + 8];
            next[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            next[2 * i + 1] =
                __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        }
        for (int i = 0; i < 16; i++) rows[i] = next[i];
    }
}

// How the model's numbers lie in memory.
struct Float32 {
    typedef float Number;
    static constexpr int DEPTH = 1;  // numbers of one column that stand together in a packed matrix
    INLINE void put(Number* p, f32x16 v) { store(p, v); }
    INLINE f32x16 get(const Number* p) { return load(p); }
    INLINE float one(Number x) { return x; }
    INLINE Number narrow(float x) { return x; }
};

struct Bfloat16 {
    typedef uint16_t Number;
    static constexpr int DEPTH = 2;
    INLINE void put(Number* p, f32x16 v) { store_bf16(p, v); }
    INLINE f32x16 get(const Number* p) { return load_bf16(p); }
    INLINE float one(Number x) { return from_bf16(x); }
    INLINE Number narrow(float x) { return to_bf16(x); }
};
