// Move the particles of every cell from one set of slots to another: packing, unpacking and a new layout of the store.
//
// variants: ITEM=float,double
//
// One warp owns one cell, lane -> particle; 8-byte attributes of any kind travel as double, bits untouched.
extern "C" __global__ void __launch_bounds__(256) relocate(const ITEM* from, ITEM* to, const long long* old_first,
                                                           const long long* new_first, const int* count, int n_cells) {
    const int lane = threadIdx.x & 31, cell = blockIdx.x * 8 + (threadIdx.x >> 5);
    if (cell >= n_cells) return;
    const ITEM* source = from + old_first[cell];
    ITEM* target = to + new_first[cell];
    for (int j = lane; j < count[cell]; j += 32) target[j] = source[j];
}
