// Attention of a few neighbouring tokens of one sequence over its block table (PagedAttention, Kwon et al. 2023), with
// the running maximum and sum of Milakov & Gimelshein 2018.
//
// Keys are read sixteen at a time, from multiples of sixteen of the position on, and a row only meets the sixteens that
// it may see: what a row gets depends neither on the rows beside it nor on how its prompt was cut.
#pragma once
#include "cache.h"

constexpr int KEYS = 16;
constexpr int LARGEST_HEAD = 256;
constexpr int TOKENS = 16;    // of one sequence, at most, that attend together
constexpr int MOST_ROWS = 64; // tokens times the query heads of the key heads that attend together

struct AttentionShape {
    int heads, kv_heads, dim, block_size;
    int window;  // 0: everything before
};

template <class T> struct AttentionRoom {
    alignas(64) float keys[LARGEST_HEAD * LANES];  // transposed: one input of all sixteen, then the next
    alignas(64) float values[KEYS * LARGEST_HEAD];
    alignas(64) float out[MOST_ROWS * LARGEST_HEAD];
    alignas(64) float scores[MOST_ROWS * LANES];
    alignas(64) float sums[MOST_ROWS * LANES];
    float most[MOST_ROWS], fades[MOST_ROWS];
    alignas(64) typename T::Number widened[LARGEST_HEAD];
};

// Sixteen keys of `words` 32-bit words each -> [words][16]. `rows[i]` null is a key of zeros.
INLINE void transpose_keys(const void* const* rows, int words, float* out) {
    for (int w = 0; w < words; w += 16) {
        f32x16 part[16];
        int here = words - w < 16 ? words - w : 16;
        for (int i = 0; i < 16; i++) {
            part[i] = f32x16{};
            if (rows[i]) {
                if (here == 16)
                    std::memcpy(&part[i], (const float*)rows[i] + w, 64);
                else
                    std::memcpy(&part[i], (const float*)rows[i] + w, here * 4);
            }
        }
        transpose(part);
        for (int i = 0; i < here; i++) store(out + (w + i) * LANES, part[i]);
    }
}

template <int N> INLINE void scores_of(const float* const* q, int dim, const float* keys, float* out) {
    f32x16 sums[N] = {};
    for (int i = 0; i < dim; i++) {
        f32x16 key = load(keys + i * LANES);
        for (int r = 0; r < N; r++) sums[r] += q[r][i] * key;
    }
    for (int r = 0; r < N; r++) store(out + r * LANES, sums[r]);
}

template <int N> INLINE void scores_of(const uint16_t* const* q, int dim, const float* keys, float* out) {
#if defined(__AVX512BF16__)
    __m512 sums[N];
    for (int r = 0; r < N; r++) sums[r] = _mm512_setzero_ps();
    for (int i = 0; i < dim; i += 2) {
        __m512bh key = (__m512bh)_mm512_load_ps(keys + i / 2 * LANES);
        for (int r = 0; r < N; r++) {
            int32_t pair;
            std::memcpy(&pair, q[r] + i, 4);
            sums[r] = _mm512_dpbf16_ps(sums[r], (__m512bh)_mm512_set1_epi32(pair), key);
        }
    }
    for (int r = 0; r < N; r++) _mm512_storeu_ps(out + r * LANES, sums[r]);
#endif
}

// out[dim] = out * fade + the weights' share of sixteen values, for N rows.
template <int N>
INLINE void add_values(const float* weights, const float* fades, const float* values, int dim, float* out) {
    for (int d = 0; d < dim; d += 4 * LANES) {
        f32x16 sums[N][4];
        for (int r = 0; r < N; r++)
            for (int j = 0; j < 4; j++) sums[r][j] = load(out + r * dim + d + j * LANES) * fades[r];
        for (int k = 0; k < KEYS; k++)
            for (int r = 0; r < N; r++)
                for (int j = 0; j < 4; j++)
                    sums[r][j] += weights[r * LANES + k] * load(values + k * dim + d + j * LANES);
        for (int r = 0; r < N; r++)
            for (int j = 0; j < 4; j++) store(out + r * dim + d + j * LANES, sums[r][j]);
    }
}

// Where positions of a sequence lie in the cache, one after the other: a division for each would cost as much as its key.
struct Place {
    const int32_t* block;
    int size, within;

    Place(const int32_t* table, int position, int block_size)
        : block(table + position / block_size), size(block_size), within(position % block_size) {}

    size_t slot() const { return (size_t)*block * size + within; }

    void next() {
        if (++within == size) block++, within = 0;
    }
};

// Tokens `first` to `first + count` of a sequence, `heads` key heads and the query heads that share each. `q` and `to`
// point at the first query head of the first token; a token's are `stride` numbers behind those of the one before. A
// token's heads lie together in the cache, so several at a time read it from one end to the other.
template <class T>
static void attend(
    const AttentionShape& shape, const LayerCache& cache, const int32_t* table, int first, int count, int kv_head,
    int heads, const typename T::Number* q, size_t q_stride, typename T::Number* to, size_t to_stride,
    AttentionRoom<T>& room
) {
    typedef typename T::Number Number;
    const int group = shape.heads / shape.kv_heads, rows = count * group, dim = shape.dim;
    const int wide = padded(dim, 4 * LANES), last = first + count - 1;
    const int seen_from = shape.window && first - shape.window + 1 > 0 ? first - shape.window + 1 : 0;
    const float scale = 1.0f / __builtin_sqrtf((float)dim);
    for (int r = 0; r < heads * rows; r++) room.most[r] = -__builtin_inff();
    std::memset(room.sums, 0, heads * rows * LANES * sizeof(float));
    std::memset(room.out, 0, (size_t)heads * rows * wide * sizeof(float));
    for (int key = seen_from / KEYS * KEYS; key <= last; key += KEYS) {
        for (int head = 0; head < heads; head++) {
            const void* keys[KEYS];
            alignas(64) Number widened[KEYS][LARGEST_HEAD];
            const int key_head = kv_head + head, value_head = shape.kv_heads + key_head, before = head * rows;
            Place here(table, key, shape.block_size), ahead(table, key + KEYS, shape.block_size);
            for (int i = 0; i < KEYS; i++, here.next()) {
                int at = key + i;
                if (at + KEYS <= last) {
                    prefetch_head<T>(cache, ahead.slot(), 2 * shape.kv_heads, key_head, dim);
                    prefetch_head<T>(cache, ahead.slot(), 2 * shape.kv_heads, value_head, dim);
                    ahead.next();
                }
                float* value = room.values + i * wide;
                keys[i] = nullptr;
                if (at > last) {
                    std::memset(value, 0, wide * sizeof(float));
                    continue;
                }
                keys[i] = head_of<T>(cache, here.slot(), 2 * shape.kv_heads, key_head, dim, widened[i]);
                const Number* v = head_of<T>(cache, here.slot(), 2 * shape.kv_heads, value_head, dim, room.widened);
                int d = 0;
                for (; d + LANES <= dim; d += LANES) store(value + d, T::get(v + d));
                for (; d < wide; d++) value[d] = d < dim ? T::one(v[d]) : 0.0f;
            }
            transpose_keys(keys, dim * (int)sizeof(Number) / 4, room.keys);
            // Rows that see any of these keys: those of tokens from the first key on to the last one's window.
            int from = key > first ? (key - first) * group : 0, to_row = rows;
            if (shape.window && key + KEYS - 1 + shape.window - first < count)
                to_row = (key + KEYS - 1 + shape.window - first) * group;
            int r = from;
            const Number* rows_at[4];
            for (; r < to_row; r += 4) {
                int n = to_row - r < 4 ? to_row - r : 4;
                for (int i = 0; i < n; i++)
                    rows_at[i] = q + (r + i) / group * q_stride + (size_t)(head * group + (r + i) % group) * dim;
                float* out = room.scores + (before + r) * LANES;
                switch (n) {
                    case 4: scores_of<4>(rows_at, dim, room.keys, out); break;
                    case 3: scores_of<3>(rows_at, dim, room.keys, out); break;
                    case 2: scores_of<2>(rows_at, dim, room.keys, out); break;
                    default: scores_of<1>(rows_at, dim, room.keys, out);
                }
            }
            const i32x16 lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
            for (r = before + from; r < before + to_row; r++) {
                int position = first + (r - before) / group;
                f32x16 score = load(room.scores + r * LANES) * scale;
                i32x16 hidden = lanes > all_int(position - key);
                if (shape.window) hidden |= lanes < all_int(position - shape.window + 1 - key);
                score = choose(hidden, all(-__builtin_inff()), score);
                float most = largest(score);
                most = most > room.most[r] ? most : room.most[r];
                f32x16 weight = exponential(score - most);
                float fade = most == room.most[r] ? 1.0f : exponential(all(room.most[r] - most))[0];
                room.most[r] = most;
                room.fades[r] = fade;
                store(room.sums + r * LANES, load(room.sums + r * LANES) * fade + weight);
                store(room.scores + r * LANES, weight);
            }
            for (r = before + from; r + 2 <= before + to_row; r += 2)
                add_values<2>(room.scores + r * LANES, room.fades + r, room.values, wide, room.out + (size_t)r * wide);
            if (r < before + to_row)
                add_values<1>(room.scores + r * LANES, room.fades + r, room.values, wide, room.out + (size_t)r * wide);
        }
    }
    for (int r = 0; r < heads * rows; r++) {
        const int row = r % rows, query_head = r / rows * group + row % group;
        float whole = 1.0f / sum(load(room.sums + r * LANES));
        Number* target = to + row / group * to_stride + (size_t)query_head * dim;
        const float* out = room.out + (size_t)r * wide;
        int d = 0;
        for (; d + LANES <= dim; d += LANES) T::put(target + d, load(out + d) * whole);
        for (; d < dim; d++) target[d] = T::narrow(out[d] * whole);
    }
}
