// Weights of 16 bits are widened exactly on every instruction set and without one, and only when they are asked for.
#include "kernels/cpu/move/widened.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "device/target.hpp"

namespace peri::kernels {
namespace {

TEST(Widened, EveryNumberOnEveryTarget) {
  for (const DType type : {DType::kF16, DType::kBF16})
    for (const char* isa : {"", "avx2", "avx512"}) {
      if (*isa && !device::this_cpu().has(isa)) continue;
      device::Target target = device::this_cpu();
      std::erase_if(target.isas, [&](const std::string& i) { return !*isa || (i == "avx512" && i != isa); });
      Tensor all = *Tensor::zeros(type, {65536});
      for (uint32_t k = 0; k < 65536; ++k) all.mutable_as<uint16_t>()[k] = static_cast<uint16_t>(k);
      const auto wide = cpu::widened(all, target);
      ASSERT_TRUE(wide.ok());
      for (int64_t k = 0; k < 65536; ++k) {
        const double want = all.f64(k), got = wide->f64(k);
        ASSERT_TRUE(want == got ? std::signbit(want) == std::signbit(got) : std::isnan(want) && std::isnan(got))
            << k << " of " << dtype_name(type) << " with '" << isa << "'";
      }
    }
}

TEST(Constants, AreAskedForOneByOne) {
  const std::vector<Tensor> stored = {*Tensor::zeros(DType::kF32, {2}), {}, *Tensor::zeros(DType::kF16, {3})};
  const Tensor wide = *Tensor::zeros(DType::kF32, {3});
  std::vector<size_t> asked;
  const Constants c(stored, [&](size_t k) -> const Tensor& {
    asked.push_back(k);
    return k == 2 ? wide : stored[k];
  });
  EXPECT_EQ(c.size(), 3U);
  const std::vector<Tensor> rest = c.all_but({2});
  EXPECT_EQ(asked, (std::vector<size_t>{0})) << "neither the packed one nor what is not a weight";
  EXPECT_TRUE(rest[0].defined() && !rest[1].defined() && !rest[2].defined());
  EXPECT_EQ(c[2].dtype(), DType::kF32);
  EXPECT_EQ(Constants(stored)[2].dtype(), DType::kF16);
}

}  // namespace
}  // namespace peri::kernels
