// PTX behind named functions.
#include "kernels/cuda/code/cluster.hpp"

namespace peri::kernels::cuda {

std::string_view cluster_text() {
  return R"(#ifdef __CUDACC_RTC__
PERI_DEVICE void peri_cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
PERI_DEVICE void peri_cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
PERI_DEVICE unsigned peri_peer_at(const unsigned at, const int block) {
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(block));
  return there;
}
PERI_DEVICE float peri_peer(const unsigned at, const int block) {
  float v;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(peri_peer_at(at, block)) : "memory");
  return v;
}
PERI_DEVICE double peri_peer_f64(const unsigned at, const int block) {
  double v;
  asm volatile("ld.shared::cluster.f64 %0, [%1];" : "=d"(v) : "r"(peri_peer_at(at, block)) : "memory");
  return v;
}
PERI_DEVICE void peri_give(const unsigned at, const int block, const float v) {
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(peri_peer_at(at, block)), "f"(v) : "memory");
}
PERI_DEVICE void peri_peer_8(float* v, const unsigned at, const int block) {
  const unsigned there = peri_peer_at(at, block);
#pragma unroll
  for (int k = 0; k < 8; k += 4)
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v[k]), "=f"(v[k + 1]), "=f"(v[k + 2]), "=f"(v[k + 3])
                 : "r"(there + k * 4)
                 : "memory");
}
#endif
)";
}

}  // namespace peri::kernels::cuda
