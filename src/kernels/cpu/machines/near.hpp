// Products or squared distances of a few rows with all support vectors, one function per instruction set. Plain types
// only: included by sources compiled per ISA.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu::machines {

constexpr int64_t kMaxRows =
    4;  // that share each load of a vector; with two vectors of sums each they fill half the registers

struct Near {
  const float* x = nullptr;        // [row][feature]
  const float* support = nullptr;  // [block][feature][kWidth of the ISA], the last block padded
  float* near = nullptr;           // [row][block][kWidth]
  int64_t features = 0, blocks = 0;
  bool squares = false;  // sums of squared differences, else of products
  float gamma = 1, shift = 0;
  int degree = 1;  // near = (gamma sum + shift) ^ degree
};

namespace avx2 {
constexpr int64_t kWidth = 16;
void compute(const Near& n, int64_t rows);  // rows: 1 to kMaxRows
}  // namespace avx2
namespace avx512 {
constexpr int64_t kWidth = 32;
void compute(const Near& n, int64_t rows);
}  // namespace avx512

}  // namespace peri::kernels::cpu::machines
