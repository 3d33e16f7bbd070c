// Matrices laid out once so that a step reads them from front to end, and their products with the rows of a step.
//
// Columns of the product stand in strips of 32. A strip holds for every 32 inputs (16 bit numbers; 1 input of 32 bits)
// the weights of its two halves of 16 columns, pairs of inputs side by side: what AVX-512 BF16 and an AMX tile take.
// A row's product never depends on the other rows: inputs are always added up in the same order.
#pragma once
#include "simd.h"

constexpr int STRIP = 32;
constexpr int ROWS = 32;   // of a block: what one pass over a strip multiplies
constexpr int INPUTS = 32; // are padded with zeros to a multiple

struct Matrix {
    void* data = nullptr;
    int inputs = 0;  // padded
    int strips = 0;

    template <class T> const typename T::Number* strip(int index) const {
        return (const typename T::Number*)data + (size_t)index * inputs * STRIP;
    }
};

// Puts the weights of one column, `inputs` numbers, at their place; `source` null leaves zeros.
template <class T>
static void pack_column(Matrix& m, int column, const typename T::Number* source, int inputs) {
    auto* strip = (typename T::Number*)m.strip<T>(column / STRIP);
    int half = column % STRIP / LANES, lane = column % LANES;
    for (int k = 0; k < inputs && source; k++) {
        size_t at = T::DEPTH == 2 ? ((size_t)(k / 32) * 2 + half) * 512 + (k % 32 / 2) * 32 + lane * 2 + k % 2
                                  : (size_t)k * STRIP + half * LANES + lane;
        strip[at] = source[k];
    }
}

// out[ROWS][STRIP] = rows of `a` times a strip.
template <int N> INLINE void few_rows(const float* a, size_t stride, const float* w, int inputs, float* out) {
    f32x16 sums[N][2] = {};
    for (int k = 0; k < inputs; k++) {
        f32x16 left = load(w + k * STRIP), right = load(w + k * STRIP + LANES);
        for (int r = 0; r < N; r++) {
            float x = a[r * stride + k];
            sums[r][0] += x * left;
            sums[r][1] += x * right;
        }
    }
    for (int r = 0; r < N; r++) {
        store(out + r * STRIP, sums[r][0]);
        store(out + r * STRIP + LANES, sums[r][1]);
    }
}

#if defined(__AVX512BF16__)
INLINE __m512bh pairs(const void* p) {
    __m512bh v;
    std::memcpy(&v, p, 64);
    return v;
}

INLINE __m512bh one_pair(const uint16_t* p) {
    int32_t x;
    std::memcpy(&x, p, 4);
    return (__m512bh)_mm512_set1_epi32(x);
}

template <int N> INLINE void few_rows(const uint16_t* a, size_t stride, const uint16_t* w, int inputs, float* out) {
    __m512 sums[N][2];
    for (int r = 0; r < N; r++) sums[r][0] = sums[r][1] = _mm512_setzero_ps();
    for (int k = 0; k < inputs; k += 32, w += 1024)
        for (int p = 0; p < 16; p++) {
            __m512bh left = pairs(w + p * 32), right = pairs(w + 512 + p * 32);
            for (int r = 0; r < N; r++) {
                __m512bh x = one_pair(a + r * stride + k + 2 * p);
                sums[r][0] = _mm512_dpbf16_ps(sums[r][0], x, left);
                sums[r][1] = _mm512_dpbf16_ps(sums[r][1], x, right);
            }
        }
    for (int r = 0; r < N; r++) {
        _mm512_storeu_ps(out + r * STRIP, sums[r][0]);
        _mm512_storeu_ps(out + r * STRIP + LANES, sums[r][1]);
    }
}
#endif

#if defined(__AMX_BF16__)
struct alignas(64) TileShapes {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// A constant: the compilers' intrinsic reads it behind their back, and stores to a local one may be left out.
static const TileShapes TILE_SHAPES;

INLINE void tiles_begin() { _tile_loadconfig(&TILE_SHAPES); }

INLINE void tiles_end() { _tile_release(); }

// Rows behind the last are computed too, from whatever the buffer holds; nobody reads them.
INLINE void tile_rows(const uint16_t* a, size_t stride, int rows, const uint16_t* w, int inputs, float* out) {
    _tile_zero(0);
    _tile_zero(1);
    if (rows <= 16) {
        for (int k = 0; k < inputs; k += 32, w += 1024) {
            _tile_loadd(4, a + k, stride * 2);
            _tile_loadd(6, w, 64);
            _tile_loadd(7, w + 512, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
        }
    } else {
        _tile_zero(2);
        _tile_zero(3);
        for (int k = 0; k < inputs; k += 32, w += 1024) {
            _tile_loadd(4, a + k, stride * 2);
            _tile_loadd(5, a + 16 * stride + k, stride * 2);
            _tile_loadd(6, w, 64);
            _tile_loadd(7, w + 512, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        _tile_stored(2, out + 16 * STRIP, STRIP * 4);
        _tile_stored(3, out + 16 * STRIP + LANES, STRIP * 4);
    }
    _tile_stored(0, out, STRIP * 4);
    _tile_stored(1, out + LANES, STRIP * 4);
}
#else
INLINE void tiles_begin() {}
INLINE void tiles_end() {}
#endif

#if defined(__AVX512F__)
constexpr int AT_ONCE = 8;  // rows whose sums fit into registers
#else
constexpr int AT_ONCE = 2;
#endif

template <int N, class Number>
INLINE void remaining_rows(const Number* a, size_t stride, int rows, const Number* w, int inputs, float* out) {
    if constexpr (N > 0) {
        if (rows == N) return few_rows<N>(a, stride, w, inputs, out);
        remaining_rows<N - 1>(a, stride, rows, w, inputs, out);
    }
}

template <class Number>
static void vector_rows(const Number* a, size_t stride, int rows, const Number* w, int inputs, float* out) {
    for (; rows > AT_ONCE; rows -= AT_ONCE, a += AT_ONCE * stride, out += AT_ONCE * STRIP)
        few_rows<AT_ONCE>(a, stride, w, inputs, out);
    remaining_rows<AT_ONCE>(a, stride, rows, w, inputs, out);
}

// At most ROWS rows, each `stride` numbers behind the one before, times one strip, into out[ROWS][STRIP].
INLINE void multiply(const float* a, size_t stride, int rows, const Matrix& m, int strip, float* out) {
    vector_rows(a, stride, rows, m.strip<Float32>(strip), m.inputs, out);
}

#if defined(__AVX512BF16__)
INLINE void multiply(const uint16_t* a, size_t stride, int rows, const Matrix& m, int strip, float* out) {
#if defined(__AMX_BF16__)
    tile_rows(a, stride, rows, m.strip<Bfloat16>(strip), m.inputs, out);
#else
    vector_rows(a, stride, rows, m.strip<Bfloat16>(strip), m.inputs, out);
#endif
}
#endif
