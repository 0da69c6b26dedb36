// Work in pieces on several threads gives what one thread gives.
#include "base/tensor_work.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "base/rng.hpp"

namespace peri {
namespace {

TEST(TensorWork, HashesAreThoseOfEachTensor) {
  Rng rng(1);
  std::vector<Tensor> tensors;
  for (const int64_t n : {0, 1, 100, 70000, 3000000, 1 << 20, 5})
    for (const DType t : {DType::kF32, DType::kU8}) {
      tensors.push_back(Tensor::zeros(t, {n}).value());
      for (std::byte& b : std::span(tensors.back().mutable_data(), tensors.back().bytes().size()))
        b = static_cast<std::byte>(rng.below(256));
    }
  tensors.push_back(Tensor::zeros(DType::kString, {3}).value());
  std::vector<const Tensor*> all;
  for (const Tensor& t : tensors) all.push_back(&t);
  const std::vector<uint64_t> hashes = content_hashes(all);
  ASSERT_EQ(hashes.size(), tensors.size());
  for (size_t k = 0; k < tensors.size(); ++k) EXPECT_EQ(hashes[k], tensors[k].content_hash()) << k;
  EXPECT_TRUE(content_hashes({}).empty());
}

TEST(TensorWork, PiecesCoverARangeOnce) {
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{1} << 19, (int64_t{1} << 20) + 3, int64_t{5000001}}) {
    std::vector<std::atomic<uint8_t>> seen(static_cast<size_t>(count));
    in_pieces(count, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) ++seen[static_cast<size_t>(k)];
    });
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](const auto& s) { return s == 1; })) << count;
  }
}

TEST(TensorWork, EachIsDoneOnce) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1} << 30}) {
    std::vector<std::atomic<int>> done(37);
    for_each_of(bytes, done.size(), [&](size_t k) { ++done[k]; });
    EXPECT_TRUE(std::all_of(done.begin(), done.end(), [](const auto& d) { return d == 1; }));
    for_each_of(bytes, 0, [&](size_t) { FAIL(); });
  }
}

}  // namespace
}  // namespace peri
