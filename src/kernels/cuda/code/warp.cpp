// PTX behind named functions.
#include "kernels/cuda/code/warp.hpp"

namespace peri::kernels::cuda {

std::string_view warp_text() {
  return R"(#ifdef __CUDACC_RTC__
PERI_DEVICE unsigned peri_shared_at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
PERI_DEVICE void peri_fetch(const unsigned at, const void* from, const bool there) {
  const int bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
}
PERI_DEVICE void peri_fetch_half(const unsigned at, const void* from, const bool there, const unsigned beside) {
  if (beside != 0u && !there) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %1};" ::"r"(at), "r"(beside) : "memory");
    return;
  }
  const int bytes = there ? 8 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
}
PERI_DEVICE void peri_fetched() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> PERI_DEVICE void peri_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
PERI_DEVICE void peri_put(const unsigned at, const peri_16& x) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(x.w[0]), "r"(x.w[1]), "r"(x.w[2]), "r"(x.w[3])
               : "memory");
}
PERI_DEVICE void peri_matrices(unsigned* r, const unsigned at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}
PERI_DEVICE void peri_matrices_across(unsigned* r, const unsigned at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}
#define PERI_MMA(NAME, TYPE)                                                                                     \
  PERI_DEVICE void NAME(float* d, const unsigned* a, const unsigned* b) {                                        \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE                                          \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                          \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                            \
  }
PERI_MMA(peri_mma_f16, "f16")
PERI_MMA(peri_mma_bf16, "bf16")
#define PERI_MMA_BYTES(NAME, TYPE)                                                                               \
  PERI_DEVICE void NAME(float* d, const unsigned* a, const unsigned* b) {                                        \
    unsigned s[4] = {peri_word(d[0]), peri_word(d[1]), peri_word(d[2]), peri_word(d[3])};                        \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." TYPE                                                   \
                 ".s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                       \
                 : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3])                                                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                            \
    for (int e = 0; e < 4; ++e) d[e] = peri_bits(s[e]);                                                          \
  }
PERI_MMA_BYTES(peri_mma_u8, "u8")
PERI_MMA_BYTES(peri_mma_i8, "s8")
PERI_DEVICE float peri_lane_xor(const float v, const int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
PERI_DEVICE void peri_lanes_meet() { __syncwarp(); }
PERI_DEVICE unsigned peri_bytes_of(const unsigned a, const unsigned b, const unsigned which) { return __byte_perm(a, b, which); }
#endif
PERI_DEVICE unsigned peri_chunk(const int row, const int chunk, const int chunks) {
  const int turned = chunks >= 8 ? chunk ^ (row & 7) : chunk ^ (row / (8 / chunks) & (chunks - 1));
  return (unsigned)(row * chunks + turned) * 16;
}
)";
}

}  // namespace peri::kernels::cuda
