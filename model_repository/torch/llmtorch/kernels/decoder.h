// A step of a decoder of the Llama family, phase by phase.
#pragma once
#include "attention.h"
#include "matrix.h"
#include "team.h"

#include <ctime>

// What the caller says; `native.py` has the same structures.
struct Shape {
    int32_t dtype;  // bytes of a number: 4 float32, 2 bfloat16
    int32_t layers, hidden, intermediate, vocab, heads, kv_heads, head_dim, block_size, max_length;
    float epsilon;
    const void* embedding;            // [vocab, hidden]
    const float *cos, *sin;           // [max_length, head_dim / 2]
    const float* norm;                // [hidden]
};

struct Chunk {
    int32_t row, count, first, table;  // of its tokens: row in the step, number, position; place of its block table
};

struct Step {
    int32_t rows, chunks, wanted;
    const int32_t* tokens;    // [rows]
    const Chunk* chunk;       // [chunks]
    const int32_t* tables;
    const int32_t* last_rows; // [wanted]
    float* logits;            // [wanted, vocab], or null
    int32_t* best;            // [wanted], or null
};

struct Layer {
    Matrix qkv, output, gate_up, down;
    const float *attention_norm, *feed_forward_norm, *qkv_bias, *output_bias, *q_norm, *k_norm;  // biases, norms of heads: or null
    LayerCache cache;
    int window;
};

constexpr int SPLIT = 8 * ROWS;  // rows of one task: prompts give work to more threads than a matrix has strips

template <class T> struct Decoder {
    typedef typename T::Number Number;
    struct Room {
        alignas(64) float block[LARGEST_HEAD / STRIP][ROWS * STRIP];
        alignas(64) float head[padded(LARGEST_HEAD, STRIP)];
        AttentionRoom<T> attention;
    };
    struct Together {
        int chunk, at, count, head, heads;  // tokens of a chunk and key heads that attend together
    };

    Shape shape;
    Layer* layers;
    Matrix head;
    Step step;
    // Of a step: residual stream, input of a matrix, queries, what the heads give, activations.
    float* residual;
    Number *input, *queries, *heads_out, *activations;
    int32_t *row_slot, *row_position;
    Together* together;
    int num_together;
    float* best_value;   // [threads][rows]
    int32_t* best_token;
    int rows_fit;
    Room** rooms;         // one of each thread

    int hidden_wide() const { return padded(shape.hidden, INPUTS); }
    int heads_wide() const { return padded(shape.heads * shape.head_dim, INPUTS); }
    int activations_wide() const { return padded(shape.intermediate, INPUTS); }
    int head_strips() const { return padded(shape.head_dim, STRIP) / STRIP; }

    // Phases: the embedding with the first norm, six for each layer, the norm of the wanted rows, and the head.
    enum { PROJECT, ATTEND, OUTPUT, NORM, ACTIVATE, DOWN, NEXT_NORM, PER_LAYER, EMBED = PER_LAYER, HEAD, KINDS };

    double seconds[KINDS];  // wall time by kind of phase, of all steps
    double opened_at;
    int open_kind = KINDS;  // none

    Phases phases() {
        return {1 + PER_LAYER * shape.layers + 1, this, [](void* self, int phase) { return ((Decoder*)self)->count(phase); },
                [](void* self, int phase, int task, int thread) { ((Decoder*)self)->run(phase, task, thread); },
                [](void* self, int phase) { ((Decoder*)self)->opened(phase); }};
    }

    int kind_of(int phase) const {
        if (phase == 0) return EMBED;
        if (phase <= PER_LAYER * shape.layers) return (phase - 1) % PER_LAYER;
        return phase == PER_LAYER * shape.layers + 1 ? HEAD : KINDS;
    }

    void opened(int phase) {
        timespec at;
        clock_gettime(CLOCK_MONOTONIC, &at);
        const double now = at.tv_sec + 1e-9 * at.tv_nsec;
        if (open_kind < KINDS) seconds[open_kind] += now - opened_at;
        opened_at = now;
        open_kind = kind_of(phase);
    }

    int count(int phase) const {
        if (phase == 0) return step.rows;
        if (phase > PER_LAYER * shape.layers) return head.strips * parts(step.wanted);
        const int index = (phase - 1) / PER_LAYER;
        const Layer& layer = layers[index];
        switch ((phase - 1) % PER_LAYER) {
            case PROJECT: return (shape.heads + 2 * shape.kv_heads) * parts(step.rows);
            case ATTEND: return num_together;
            case OUTPUT: return layer.output.strips * parts(step.rows);
            case NORM: return step.rows;
            case ACTIVATE: return layer.gate_up.strips / 2 * parts(step.rows);
            case DOWN: return layer.down.strips * parts(step.rows);
            default: return index + 1 < shape.layers ? step.rows : step.wanted;
        }
    }

    void run(int phase, int task, int thread) {
        Room& room = *rooms[thread];
        if (phase == 0) {
            embed(task);
            return norm(task, task, layers[0].attention_norm);
        }
        if (phase > PER_LAYER * shape.layers)
            return blocks(task, step.wanted, [&](int strip, int row, int rows) { logits(strip, row, rows, thread, room); });
        const int index = (phase - 1) / PER_LAYER;
        const Layer& layer = layers[index];
        switch ((phase - 1) % PER_LAYER) {
            case PROJECT:
                return blocks(task, step.rows, [&](int head, int row, int rows) { project(layer, head, row, rows, room); });
            case ATTEND: return attend_task(layer, task, room.attention);
            case OUTPUT: return add(task, layer.output, heads_out, heads_wide(), layer.output_bias, room);
            case NORM: return norm(task, task, layer.feed_forward_norm);
            case ACTIVATE:
                return blocks(task, step.rows, [&](int unit, int row, int rows) { activate(layer, unit, row, rows, room); });
            case DOWN: return add(task, layer.down, activations, activations_wide(), nullptr, room);
            default:
                if (index + 1 < shape.layers) return norm(task, task, layers[index + 1].attention_norm);
                return norm(task, step.last_rows[task], shape.norm);
        }
    }

    static int parts(int rows) { return (rows + SPLIT - 1) / SPLIT; }

    // A task is a unit of columns with SPLIT rows, in blocks of at most ROWS.
    template <class F> static void blocks(int task, int rows, F block) {
        const int unit = task / parts(rows), from = task % parts(rows) * SPLIT;
        const int to = from + SPLIT < rows ? from + SPLIT : rows;
        for (int row = from; row < to; row += ROWS) block(unit, row, to - row < ROWS ? to - row : ROWS);
    }

    void embed(int row) {
        const Number* source = (const Number*)shape.embedding + (size_t)step.tokens[row] * shape.hidden;
        float* x = residual + (size_t)row * hidden_wide();
        for (int i = 0; i < shape.hidden; i++) x[i] = T::one(source[i]);
    }

    // x / rms(x) * weight (Zhang & Sennrich 2019).
    void norm(int target, int row, const float* weight) {
        Number* to = input + (size_t)target * hidden_wide();
        const float* x = residual + (size_t)row * hidden_wide();
        const float scale = inverse_rms(x, shape.hidden);
        int i = 0;
        for (; i + LANES <= shape.hidden; i += LANES) T::put(to + i, load(x + i) * scale * load(weight + i));
        for (; i < shape.hidden; i++) to[i] = T::narrow(x[i] * scale * weight[i]);
    }

    float inverse_rms(const float* x, int size) const {
        f32x16 squares = {};
        int i = 0;
        for (; i + LANES <= size; i += LANES) squares += load(x + i) * load(x + i);
        float rest = 0.0f;
        for (; i < size; i++) rest += x[i] * x[i];
        return 1.0f / __builtin_sqrtf((sum(squares) + rest) / size + shape.epsilon);
    }

    // One head of queries, keys or values: its matrix, bias, norm and rotation, and its place.
    void project(const Layer& layer, int head, int row, int rows, Room& room) {
        const int dim = shape.head_dim, strips = head_strips();
        for (int s = 0; s < strips; s++)
            multiply(input + (size_t)row * hidden_wide(), hidden_wide(), rows, layer.qkv, head * strips + s, room.block[s]);
        const bool is_query = head < shape.heads, is_key = !is_query && head < shape.heads + shape.kv_heads;
        for (int r = 0; r < rows; r++) {
            float* x = room.head;
            for (int s = 0; s < strips; s++) std::memcpy(x + s * STRIP, room.block[s] + r * STRIP, STRIP * sizeof(float));
            if (layer.qkv_bias)
                for (int i = 0; i < dim; i++) x[i] += layer.qkv_bias[head * dim + i];
            const float* weight = is_query ? layer.q_norm : is_key ? layer.k_norm : nullptr;
            if (weight) {
                const float scale = inverse_rms(x, dim);
                for (int i = 0; i < dim; i++) x[i] *= scale * weight[i];
            }
            if (is_query || is_key) rotate(x, row_position[row + r]);
            if (is_query)
                put_row(queries + (size_t)(row + r) * heads_wide() + head * dim, x, dim);
            else
                store_head<T>(layer.cache, row_slot[row + r], 2 * shape.kv_heads, head - shape.heads, dim, x);
        }
    }

    static void put_row(Number* to, const float* x, int size) {
        int i = 0;
        for (; i + LANES <= size; i += LANES) T::put(to + i, load(x + i));
        for (; i < size; i++) to[i] = T::narrow(x[i]);
    }

    // Rotary position embedding (Su et al. 2021), halves of a head forming the pairs.
    void rotate(float* x, int position) const {
        const int half = shape.head_dim / 2;
        const float *cos = shape.cos + (size_t)position * half, *sin = shape.sin + (size_t)position * half;
        for (int i = 0; i < half; i++) {
            float a = x[i], b = x[i + half];
            x[i] = a * cos[i] - b * sin[i];
            x[i + half] = b * cos[i] + a * sin[i];
        }
    }

    void attend_task(const Layer& layer, int task, AttentionRoom<T>& room) {
        const Together& part = together[task];
        const Chunk& chunk = step.chunk[part.chunk];
        const int query_head = part.head * (shape.heads / shape.kv_heads);
        const size_t at = (size_t)(chunk.row + part.at) * heads_wide() + query_head * shape.head_dim;
        const AttentionShape attention = {shape.heads, shape.kv_heads, shape.head_dim, shape.block_size, layer.window};
        attend<T>(attention, layer.cache, step.tables + chunk.table, chunk.first + part.at, part.count, part.head,
                  part.heads, queries + at, heads_wide(), heads_out + at, heads_wide(), room);
    }

    // Adds a matrix's product to the residual stream.
    void add(int task, const Matrix& matrix, const Number* from, int wide, const float* bias, Room& room) {
        blocks(task, step.rows, [&](int strip, int row, int rows) {
            float* block = room.block[0];
            multiply(from + (size_t)row * wide, wide, rows, matrix, strip, block);
            for (int r = 0; r < rows; r++) {
                float* x = residual + (size_t)(row + r) * hidden_wide() + strip * STRIP;
                for (int i = 0; i < STRIP; i += LANES) {
                    f32x16 more = load(block + r * STRIP + i);
                    if (bias) more += load(bias + strip * STRIP + i);
                    store(x + i, load(x + i) + more);
                }
            }
        });
    }

    // SwiGLU (Shazeer 2020): a strip of the gate stands before the strip of the same columns of the up projection.
    void activate(const Layer& layer, int unit, int row, int rows, Room& room) {
        for (int s = 0; s < 2; s++)
            multiply(input + (size_t)row * hidden_wide(), hidden_wide(), rows, layer.gate_up, 2 * unit + s, room.block[s]);
        for (int r = 0; r < rows; r++)
            for (int i = 0; i < STRIP; i += LANES)
                T::put(activations + (size_t)(row + r) * activations_wide() + unit * STRIP + i,
                       silu(load(room.block[0] + r * STRIP + i)) * load(room.block[1] + r * STRIP + i));
    }

    void logits(int strip, int row, int rows, int thread, Room& room) {
        float* block = room.block[0];
        multiply(input + (size_t)row * hidden_wide(), hidden_wide(), rows, head, strip, block);
        const int first = strip * STRIP, count = shape.vocab - first < STRIP ? shape.vocab - first : STRIP;
        for (int r = 0; r < rows; r++) {
            const float* x = block + r * STRIP;
            if (step.logits) std::memcpy(step.logits + (size_t)(row + r) * shape.vocab + first, x, count * sizeof(float));
            if (!step.best) continue;
            float& value = best_value[thread * rows_fit + row + r];
            if (count == STRIP && largest(larger(load(x), load(x + LANES))) <= value) continue;  // a thread's strips ascend
            for (int i = 0; i < count; i++)
                if (x[i] > value) value = x[i], best_token[thread * rows_fit + row + r] = first + i;
        }
    }
};
