// The kernels' door: what llmtorch.native calls. Plain C functions; nothing here throws, null or 0 is a failure.
#include "decoder.h"

#include <cstdlib>
#include <new>
#include <sys/mman.h>

namespace {

enum { DONE, NO_MEMORY, BAD_TOKEN };  // what a step may end with

constexpr int BUSY = 4;  // chunks of a step for each thread, from which on there are tasks enough without one for each head
constexpr size_t LARGE_PAGE = 2u << 20;
constexpr size_t CHAPTER = 32 * LARGE_PAGE;

// Memory for weights: zeros, in large pages where the system has them, since every step reads all of it.
struct Arena {
    static constexpr int MOST = 4096;
    char* chapters[MOST];
    size_t sizes[MOST];
    int count = 0;
    size_t used = 0;

    void* take(size_t bytes) {
        bytes = (bytes + 63) / 64 * 64;
        if (!count || used + bytes > sizes[count - 1]) {
            size_t size = bytes > CHAPTER ? (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE : CHAPTER;
            if (count == MOST) return nullptr;
            void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (memory == MAP_FAILED) return nullptr;
            madvise(memory, size, MADV_HUGEPAGE);
            chapters[count] = (char*)memory;
            sizes[count++] = size;
            used = 0;
        }
        void* taken = chapters[count - 1] + used;
        used += bytes;
        return taken;
    }

    ~Arena() {
        for (int i = 0; i < count; i++) munmap(chapters[i], sizes[i]);
    }
};

void begin_tiles() { tiles_begin(); }

template <class N> N* make(size_t count) {
    void* memory = nullptr;
    size_t bytes = count * sizeof(N);
    if (posix_memalign(&memory, 64, bytes ? bytes : 64)) return nullptr;
    std::memset(memory, 0, bytes);
    return (N*)memory;
}

struct Packing {
    Matrix* matrix;
    const void* weights;
    const int32_t* columns;
    int inputs;
};

template <class T> void pack_strip(void* context, int, int strip, int) {
    Packing& p = *(Packing*)context;
    for (int column = strip * STRIP; column < (strip + 1) * STRIP; column++) {
        int row = p.columns[column];
        auto* source = (const typename T::Number*)p.weights + (size_t)row * p.inputs;
        pack_column<T>(*p.matrix, column, row < 0 ? nullptr : source, p.inputs);
    }
}

struct Native {
    Arena arena;
    Team team;
    Shape shape;
    Layer* layers = nullptr;

    virtual ~Native() { std::free(layers); }
    virtual int run(const Step& step) = 0;
    virtual Matrix& head() = 0;
    virtual void seconds(double* kinds) const = 0;
    virtual void pack(Packing& packing) = 0;
};

template <class T> struct NativeOf : Native {
    Decoder<T> decoder{};

    bool begin(const Shape& given, int threads) {
        shape = given;
        layers = make<Layer>(shape.layers);
        if (!layers) return false;
        team.start(threads, begin_tiles);
        decoder.shape = shape;
        decoder.layers = layers;
        decoder.rooms = make<typename Decoder<T>::Room*>(team.size);
        if (!decoder.rooms) return false;
        for (int i = 0; i < team.size; i++)
            if (!(decoder.rooms[i] = make<typename Decoder<T>::Room>(1))) return false;
        return true;
    }

    ~NativeOf() override {
        team.end();
        forget();
        if (decoder.rooms)
            for (int i = 0; i < team.size; i++) std::free(decoder.rooms[i]);
        std::free(decoder.rooms);
    }

    Matrix& head() override { return decoder.head; }
    void seconds(double* kinds) const override { std::memcpy(kinds, decoder.seconds, sizeof decoder.seconds); }
    void pack(Packing& packing) override {
        auto count = [](void* context, int) { return ((Packing*)context)->matrix->strips; };
        team.run({1, &packing, count, pack_strip<T>});
    }

    int run(const Step& step) override {
        if (step.rows > decoder.rows_fit && !fit(padded(step.rows, 64))) return NO_MEMORY;
        for (int i = 0; i < step.rows; i++)
            if (step.tokens[i] < 0 || step.tokens[i] >= shape.vocab) return BAD_TOKEN;
        decoder.step = step;
        decoder.num_together = 0;
        const int group = shape.heads / shape.kv_heads;
        const int tokens = MOST_ROWS / group < TOKENS ? MOST_ROWS / group : TOKENS;
        for (int c = 0; c < step.chunks; c++) {
            const Chunk& chunk = step.chunk[c];
            const int32_t* table = step.tables + chunk.table;
            for (int i = 0; i < chunk.count; i++) {
                int position = chunk.first + i;
                decoder.row_position[chunk.row + i] = position;
                decoder.row_slot[chunk.row + i] = table[position / shape.block_size] * shape.block_size + position % shape.block_size;
            }
            // Pieces end at multiples of their length, so that a piece needs no more of its last keys than it must.
            for (int at = 0; at < chunk.count;) {
                int here = tokens - (chunk.first + at) % tokens;
                here = chunk.count - at < here ? chunk.count - at : here;
                const int most = MOST_ROWS / (here * group), heads = step.chunks < BUSY * team.size ? 1 : most;
                for (int head = 0; head < shape.kv_heads; head += heads) {
                    const int left = shape.kv_heads - head;
                    decoder.together[decoder.num_together++] = {c, at, here, head, heads < left ? heads : left};
                }
                at += here;
            }
        }
        for (int t = 0; t < team.size; t++)
            for (int i = 0; i < step.wanted; i++) {
                decoder.best_value[t * decoder.rows_fit + i] = -__builtin_inff();
                decoder.best_token[t * decoder.rows_fit + i] = 0;
            }
        tiles_begin();  // the caller's thread computes other things between steps
        team.run(decoder.phases());
        tiles_end();
        for (int i = 0; step.best && i < step.wanted; i++) {
            float value = decoder.best_value[i];
            step.best[i] = decoder.best_token[i];
            for (int t = 1; t < team.size; t++) {
                float other = decoder.best_value[t * decoder.rows_fit + i];
                int token = decoder.best_token[t * decoder.rows_fit + i];
                if (other > value || (other == value && token < step.best[i])) value = other, step.best[i] = token;
            }
        }
        return DONE;
    }

  private:
    typedef typename T::Number Number;

    // A block of rows is read whole, so there are some more than are asked for.
    bool fit(int rows) {
        forget();
        const size_t n = rows + ROWS;
        Decoder<T>& d = decoder;
        d.residual = make<float>(n * d.hidden_wide());
        d.input = make<Number>(n * d.hidden_wide());
        d.queries = make<Number>(n * d.heads_wide());
        d.heads_out = make<Number>(n * d.heads_wide());
        d.activations = make<Number>(n * d.activations_wide());
        d.row_slot = make<int32_t>(n);
        d.row_position = make<int32_t>(n);
        d.together = make<typename Decoder<T>::Together>(n * shape.kv_heads);
        d.best_value = make<float>(n * team.size);
        d.best_token = make<int32_t>(n * team.size);
        d.rows_fit = rows;
        if (d.residual && d.input && d.queries && d.heads_out && d.activations && d.row_slot && d.row_position && d.together && d.best_value && d.best_token)
            return true;
        forget();
        return false;
    }

    void forget() {
        Decoder<T>& d = decoder;
        void* all[] = {d.residual, d.input, d.queries, d.heads_out, d.activations, d.row_slot, d.row_position, d.together, d.best_value, d.best_token};
        for (void* one : all) std::free(one);
        d.residual = d.best_value = nullptr;
        d.input = d.queries = d.heads_out = d.activations = nullptr;
        d.row_slot = d.row_position = d.best_token = nullptr;
        d.together = nullptr;
        d.rows_fit = 0;
    }
};

template <class T> Native* begin(const Shape& shape, int threads) {
    void* memory = nullptr;
    if (posix_memalign(&memory, alignof(NativeOf<T>), sizeof(NativeOf<T>))) return nullptr;
    auto* made = new (memory) NativeOf<T>();
    if (made->begin(shape, threads)) return made;
    made->~NativeOf<T>();
    std::free(made);
    return nullptr;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// Whether this library may run here: the kernel has to allow the tiles of AMX.
int llm_ready() {
#if defined(__AMX_BF16__)
    constexpr long ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18;
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
    return 1;
#endif
}

void* llm_begin(const Shape* shape, int threads) {
#if defined(__AVX512BF16__)
    if (shape->dtype == 2) return begin<Bfloat16>(*shape, threads);
#endif
    return shape->dtype == 4 ? begin<Float32>(*shape, threads) : nullptr;
}

void llm_end(void* model) {
    Native* native = (Native*)model;
    native->~Native();
    std::free(native);
}

// Lays out a matrix: kind 0 query-key-value, 1 output, 2 gate and up, 3 down, 4 head. `columns` [strips * 32] says which
// row of `weights` [n, inputs] stands in which column, -1 none.
int llm_pack(void* model, int kind, int layer, const void* weights, int inputs, const int32_t* columns, int strips) {
    Native& native = *(Native*)model;
    Layer* at = native.layers + layer;
    Matrix* all[] = {&at->qkv, &at->output, &at->gate_up, &at->down, &native.head()};
    Matrix& matrix = *all[kind];
    matrix.inputs = padded(inputs, INPUTS);
    matrix.strips = strips;
    matrix.data = native.arena.take((size_t)strips * STRIP * matrix.inputs * native.shape.dtype);
    if (!matrix.data) return 0;
    Packing packing = {&matrix, weights, columns, inputs};
    native.pack(packing);
    return 1;
}

// Vectors of a layer, which stay where they are; those that the model lacks are null.
void llm_layer(void* model, int layer, const float* const* vectors, void* numbers, uint16_t* scales, int window) {
    Layer& at = ((Native*)model)->layers[layer];
    at.attention_norm = vectors[0];
    at.feed_forward_norm = vectors[1];
    at.qkv_bias = vectors[2];
    at.output_bias = vectors[3];
    at.q_norm = vectors[4];
    at.k_norm = vectors[5];
    at.cache = {numbers, scales};
    at.window = window;
}

int llm_step(void* model, const Step* step) { return ((Native*)model)->run(*step); }

// Wall time of all steps so far by kind of phase, in the order of `Decoder`'s: queries, keys and values; attention;
// output; norm; gate and up; down; next norm; embedding; head.
void llm_seconds(void* model, double* kinds) { ((Native*)model)->seconds(kinds); }
}
#pragma GCC visibility pop
