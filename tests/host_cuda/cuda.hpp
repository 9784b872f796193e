// CUDA on the host, for tests: a block's threads are fibers that take turns; what needs several threads (a barrier, a
// shuffle, a tensor-core product) lets each of them deposit its values and wait for the others. One block at a time.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __restrict__
#define __constant__

using std::fma;
using std::max;
using std::min;

struct int2 { int x, y; };
struct double2 { double x, y; };
struct ulonglong2 { unsigned long long x, y; };
struct float2 { float x, y; };
struct dim3 { unsigned x, y, z; };

namespace host {

struct Thread {
    ucontext_t begin;
    jmp_buf place;  // where it goes on once it has begun
    std::unique_ptr<char[]> stack;
    dim3 index;
    int warp, lane;
    bool begun, done;
};

struct Warp {
    unsigned char box[32][64];  // what each lane deposits
    int size;                   // lanes that are still running
};

struct Barrier {
    int waiting = 0;
    long generation = 0;
};

inline std::vector<Thread> threads;
inline std::vector<Warp> warps;
inline std::vector<Barrier> warp_barriers;
inline Barrier block_barrier;
inline Thread* current;
inline jmp_buf scheduler;
inline dim3 block_index, block_size, grid_size;
inline std::vector<char> shared_memory;
inline void (*body)(void*);
inline void* body_arguments;
inline int running;

constexpr std::size_t stack_size = 256 * 1024;

// Jumps need no system call, as swapcontext does.
inline void yield() {
    if (!_setjmp(current->place)) _longjmp(scheduler, 1);
}

__attribute__((noinline)) inline void resume(Thread& thread) {
    current = &thread;
    if (_setjmp(scheduler)) return;
    if (thread.begun) _longjmp(thread.place, 1);
    thread.begun = true;
    setcontext(&thread.begin);
}

// A thread that has returned no longer counts, as on a GPU of compute capability 7 and later.
inline void wait(Barrier& b, const int& size) {
    const long mine = b.generation;
    ++b.waiting;
    for (;;) {
        if (b.generation != mine) return;
        if (b.waiting >= size) {
            b.waiting = 0;
            ++b.generation;
            return;
        }
        yield();
    }
}

inline void wait_warp() { wait(warp_barriers[current->warp], warps[current->warp].size); }

// Deposit `value`, let all lanes of the warp do so, then read what they deposited.
template <class T, class Read>
auto exchange(const T& value, Read read) {
    static_assert(sizeof(T) <= sizeof(Warp::box[0]));
    Warp& warp = warps[current->warp];
    std::memcpy(warp.box[current->lane], &value, sizeof(T));
    wait_warp();
    auto result = read([&](int lane) {
        T other;
        std::memcpy(&other, warp.box[lane], sizeof(T));
        return other;
    });
    wait_warp();
    return result;
}

inline void enter() {
    body(body_arguments);
    current->done = true;
    --warps[current->warp].size;
    --running;
    yield();
}

inline void run_block() {
    const int n = block_size.x * block_size.y * block_size.z;
    threads.resize(n);
    warps.assign((n + 31) / 32, Warp{});
    warp_barriers.assign(warps.size(), Barrier{});
    block_barrier = Barrier{};
    running = n;
    for (int t = 0; t < n; ++t) {
        Thread& thread = threads[t];
        thread.index = {t % block_size.x, t / block_size.x % block_size.y, t / (block_size.x * block_size.y)};
        thread.warp = t / 32, thread.lane = t % 32, thread.begun = thread.done = false;
        ++warps[thread.warp].size;
        if (!thread.stack) thread.stack.reset(new char[stack_size]);
        getcontext(&thread.begin);
        thread.begin.uc_stack.ss_sp = thread.stack.get();
        thread.begin.uc_stack.ss_size = stack_size;
        makecontext(&thread.begin, enter, 0);
    }
    while (running > 0)
        for (Thread& thread : threads)
            if (!thread.done) resume(thread);
}

template <class... A, std::size_t... I>
void launch(void (*kernel)(A...), const unsigned* sizes, std::size_t shared, void** arguments, std::index_sequence<I...>) {
    grid_size = {sizes[0], sizes[1], sizes[2]}, block_size = {sizes[3], sizes[4], sizes[5]};
    auto call = [&] { kernel(*(A*)arguments[I]...); };
    body = [](void* f) { (*(decltype(call)*)f)(); };
    body_arguments = &call;
    shared_memory.assign(shared + 16, (char)0xff);  // NaN, so that what is read before it is written shows
    for (unsigned z = 0; z < grid_size.z; ++z)
        for (unsigned y = 0; y < grid_size.y; ++y)
            for (unsigned x = 0; x < grid_size.x; ++x) {
                block_index = {x, y, z};
                run_block();
            }
}

template <class... A>
void launch(void (*kernel)(A...), const unsigned* sizes, std::size_t shared, void** arguments) {
    launch(kernel, sizes, shared, arguments, std::index_sequence_for<A...>{});
}

inline char* dynamic_shared() { return (char*)(((std::size_t)shared_memory.data() + 15) / 16 * 16); }

}  // namespace host

#define threadIdx (host::current->index)
#define blockIdx (host::block_index)
#define blockDim (host::block_size)
#define gridDim (host::grid_size)

inline void __syncthreads() { host::wait(host::block_barrier, host::running); }
inline void __syncwarp(unsigned = ~0u) { host::wait_warp(); }
inline void __threadfence() {}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
    return host::exchange(value, [&](auto of) { return of(lane & 31); });
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned step) {
    const int lane = host::current->lane - (int)step;
    return host::exchange(value, [&](auto of) { return of(lane < 0 ? host::current->lane : lane); });
}
template <class T>
T __shfl_down_sync(unsigned, T value, unsigned step) {
    const int lane = host::current->lane + (int)step;
    return host::exchange(value, [&](auto of) { return of(lane > 31 ? host::current->lane : lane); });
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int bits) {
    return host::exchange(value, [&](auto of) { return of(host::current->lane ^ bits); });
}
inline unsigned __ballot_sync(unsigned, bool vote) {
    return host::exchange(vote, [](auto of) {
        unsigned all = 0;
        for (int lane = 0; lane < 32; ++lane) all |= (unsigned)of(lane) << lane;
        return all;
    });
}
inline bool __any_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) != 0; }
inline unsigned __match_any_sync(unsigned, int value) {
    return host::exchange(value, [&](auto of) {
        unsigned all = 0;
        for (int lane = 0; lane < 32; ++lane) all |= (unsigned)(of(lane) == value) << lane;
        return all;
    });
}
template <class T>
T __ldcg(const T* from) { return *from; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(unsigned x) { return __builtin_ffs((int)x); }
inline unsigned __float_as_uint(float x) { unsigned u; std::memcpy(&u, &x, 4); return u; }
inline float __uint_as_float(unsigned u) { float x; std::memcpy(&x, &u, 4); return x; }
inline long long __double_as_longlong(double x) { long long u; std::memcpy(&u, &x, 8); return u; }
inline double __longlong_as_double(long long u) { double x; std::memcpy(&x, &u, 8); return x; }
template <class T>
T atomicAdd(T* to, T value) {
    const T old = *to;
    *to += value;
    return old;
}
template <class T>
T atomicSub(T* to, T value) { return atomicAdd(to, (T)-value); }

// --- tensor cores, by the fragment tables of the PTX ISA -------------------------------------------------------------
// A value of T per lane and register: a[i] is element (row_a(i), column_a(i)) for the lane, likewise b and c.
inline double round_tf32(double x) { return x; }
inline float round_tf32(float x) { return __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u); }

template <int M, int N, int K, class T, int NA, int NB, int NC>
void host_mma(T (&c)[NC], const T (&a)[NA], const T (&b)[NB]) {
    struct Operands { T a[NA], b[NB]; } mine;
    std::memcpy(mine.a, a, sizeof a), std::memcpy(mine.b, b, sizeof b);
    const int g = host::current->lane / 4, q = host::current->lane % 4;
    host::exchange(mine, [&](auto of) {
        T A[M][K], B[K][N];
        for (int lane = 0; lane < 32; ++lane) {
            const Operands other = of(lane);
            const int group = lane / 4, in_group = lane % 4;
            for (int i = 0; i < NA; ++i) A[group + 8 * (i % (M / 8))][in_group + 4 * (i / (M / 8))] = other.a[i];
            for (int i = 0; i < NB; ++i) B[in_group + 4 * i][group] = other.b[i];
        }
        for (int i = 0; i < NC; ++i)
            for (int k = 0; k < K; ++k) c[i] += A[g + 8 * (i / 2)][k] * B[k][2 * q + i % 2];
        return 0;
    });
}
