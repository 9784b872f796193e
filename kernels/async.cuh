// Copies from global to shared memory that run beside the computation (compute capability 8.0 and newer).
//
// A lane sees what it has copied itself after it has waited; other lanes do after a __syncwarp behind that.
#pragma once

// *to = *from, some time before a wait that covers the present group: 16 bytes on multiples of 16, or 8; `to` in shared memory.
// 16 bytes pass by the first cache, unless `again` says that what stands beside them will be wanted too.
template <bool again = false, class T>
__device__ inline void copy_async(T* to, const T* from) {
#ifdef __CUDACC__
    const unsigned address = (unsigned)__cvta_generic_to_shared(to);
    if constexpr (sizeof(T) == 16 && !again)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(sizeof(T)) : "memory");
#else
    *to = *from;
#endif
}

// All copies of this lane since the last call are one group.
__device__ inline void close_group() {
#ifdef __CUDACC__
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Wait until all groups of this lane but the last `pending` have arrived.
template <int pending>
__device__ inline void wait_groups() {
#ifdef __CUDACC__
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}
