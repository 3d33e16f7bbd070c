// Threads that work through phases of tasks together. A phase is over when its tasks are done, not when every thread has
// come by: one that sleeps, or whose core others use, holds nobody up unless it is in the middle of a task.
#pragma once
#include <atomic>
#include <climits>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

// A thread without a task looks so many times for one before it sleeps: about 50 microseconds. The next phase is hardly
// ever further away on cores of one's own, and on shared ones looking takes the time of the thread it waits for.
constexpr int LOOKS = 1000;

INLINE void look_again() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// What a team works on: phases, numbered from 0, each with tasks that may be done in any order.
struct Phases {
    int phases;
    void* context;
    int (*count)(void* context, int phase);
    void (*task)(void* context, int phase, int task, int thread);
    void (*opened)(void* context, int phase) = nullptr;  // a phase with tasks begins; its number is `phases` at the end
};

struct Team {
    static constexpr int MOST = 256;

    int size = 1;

    // Fewer threads than asked for, where the system gives no more.
    void start(int wanted, void (*begin_thread)()) {
        wanted = wanted < MOST ? wanted : MOST;
        for (; size < wanted; size++) {
            members[size] = {this, size, begin_thread};
            if (pthread_create(&threads[size], nullptr, live, &members[size])) break;
        }
    }

    void end() {
        ending.store(true);
        turn.fetch_add(1);
        wake();
        for (int i = 1; i < size; i++) pthread_join(threads[i], nullptr);
    }

    // Returns when all tasks are done. The caller is thread 0.
    void run(const Phases& phases) {
        todo = phases;
        base = phase_of(ticket.load()) + 1;
        finished.store(false, std::memory_order_relaxed);
        publish(0);
        while (!finished.load(std::memory_order_acquire)) {
            int seen = turn.load(std::memory_order_acquire);
            if (!work(0) && !finished.load(std::memory_order_acquire)) wait(seen);
        }
    }

  private:
    // The phase, how many tasks it has and how many were taken, in one word: who takes a task knows it is one.
    static constexpr int BITS = 20;
    static constexpr uint64_t FIELD = (1u << BITS) - 1;
    static constexpr uint32_t PHASE = (1u << 24) - 1;

    struct Member {
        Team* team;
        int thread;
        void (*begin_thread)();
    };

    alignas(64) std::atomic<uint64_t> ticket{0};
    alignas(64) std::atomic<int> done{0};
    alignas(64) std::atomic<int> turn{0};
    std::atomic<int> sleepers{0};
    std::atomic<bool> finished{true}, ending{false};
    Phases todo{};
    uint32_t base = 0;
    Member members[MOST];
    pthread_t threads[MOST];

    static uint32_t phase_of(uint64_t word) { return (uint32_t)(word >> (2 * BITS)) & PHASE; }

    // Opens the next phase that has tasks; all of those before are done.
    void publish(int phase) {
        while (phase < todo.phases) {
            uint64_t count = (uint64_t)todo.count(todo.context, phase);
            if (count) {
                if (todo.opened) todo.opened(todo.context, phase);
                done.store(0, std::memory_order_relaxed);
                ticket.store((uint64_t)((base + phase) & PHASE) << (2 * BITS) | count << BITS);
                turn.fetch_add(1);
                wake();
                return;
            }
            phase++;
        }
        if (todo.opened) todo.opened(todo.context, phase);
        ticket.store((uint64_t)((base + phase) & PHASE) << (2 * BITS));
        finished.store(true);
        turn.fetch_add(1);
        wake();
    }

    // Does tasks until the phase has none left; whether it did any.
    bool work(int thread) {
        bool any = false;
        for (;;) {
            uint64_t word = ticket.load(std::memory_order_acquire);
            if ((word & FIELD) >= (word >> BITS & FIELD)) return any;
            word = ticket.fetch_add(1);
            const int task = (int)(word & FIELD), count = (int)(word >> BITS & FIELD);
            if (task >= count) return any;
            const int phase = (int)((phase_of(word) - base) & PHASE);
            todo.task(todo.context, phase, task, thread);
            any = true;
            if (done.fetch_add(1) + 1 == count) publish(phase + 1);
        }
    }

    void wait(int seen) {
        for (int i = 0; i < LOOKS; i++) {
            if (turn.load(std::memory_order_acquire) != seen) return;
            look_again();
        }
        sleepers.fetch_add(1);
        while (turn.load() == seen) syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
        sleepers.fetch_sub(1);
    }

    void wake() {
        if (sleepers.load()) syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
    }

    static void* live(void* argument) {
        Member* self = (Member*)argument;
        Team* team = self->team;
        if (self->begin_thread) self->begin_thread();
        for (;;) {
            int seen = team->turn.load(std::memory_order_acquire);
            if (team->ending.load()) return nullptr;
            if (!team->work(self->thread)) team->wait(seen);
        }
    }
};
