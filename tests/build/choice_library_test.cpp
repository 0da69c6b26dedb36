// A library that saves the whole engine little is not opened for a step that it does faster.
#include <algorithm>

#include "kernels/vendor/library.hpp"
#include "tests/build/planted_products.hpp"

namespace peri::build {
namespace {

// A relu that calls a library, in no time.
Result<std::vector<kernels::Offer>> offer_vendor(const kernels::Problem& p, const device::Target& target) {
  PERI_ASSIGN(std::vector<kernels::Offer> offers, offer_relu(p, target));
  offers[0].library = kernels::vendor::onednn_library();
  return offers;
}
Result<std::unique_ptr<kernels::Instance>> make_vendor(const kernels::Problem& p, std::string_view,
                                                       const kernels::InstantiateContext&) {
  const std::vector<int64_t> d = kernels::dims_of(*p.graph->inputs[0]);
  return kernels::TaskInstance::make(1, 0, [n = d[0] * d[1]](int64_t, const kernels::Args& args) {
    const float* x = static_cast<const float*>(args.in[0]);
    for (int64_t k = 0; k < n; ++k) static_cast<float*>(args.out[0])[k] = std::max(x[k], 0.0f);
  });
}
const kernels::Kernel kVendorKernel =
    kernel("vendor", offer_vendor, make_vendor, "graph { input x: f32[2,3]; y = relu(x); output y }");

constexpr std::string_view kProduct =
    "graph { input x: f32[24,8]; input w: f32[8,16]; p = matmul(x, w); y = relu(p); output y }";

class Library : public Choice {
 protected:
  const kernels::AddedKernel vendor_{kVendorKernel};
};

TEST_F(Library, AStepThatItDoesInNoTimeIsWorthItWhereItIsMuchOfTheWhole) {
  costs(50, 0.2, 2);
  const auto built = build_engine(options(), model(kProduct));
  ASSERT_TRUE(built.ok()) << built.error().text();
  EXPECT_EQ(kernels_of(*built), (Names{"short", "vendor"}));
}

TEST_F(Library, AStepThatItDoesInNoTimeIsNotWorthItWhereItIsLittleOfTheWhole) {
  costs(50, 20, 0.05);
  const auto built = build_engine(options(), model(kProduct));
  ASSERT_TRUE(built.ok()) << built.error().text();
  EXPECT_EQ(kernels_of(*built), (Names{"short", "rest"}));
  EXPECT_TRUE(built->verdict.right());
  const auto& others = built->compiled.steps[1].others;
  ASSERT_EQ(others.size(), 1u) << "it was tried";
  EXPECT_LT(others[0].second.time_ms, built->compiled.steps[1].evidence.time_ms);
}

// A step that nothing times is not what the library's saving is held against.
TEST_F(Library, AStepWithoutATimeDoesNotCount) {
  costs(50, 0.2, 2);
  const auto built = build_engine(options(), model("graph { input x: f32[24,8]; input w: f32[8,16]; p = matmul(x, w); "
                                                   "y = relu(p); z = softmax(y); output z }"));
  ASSERT_TRUE(built.ok()) << built.error().text();
  EXPECT_EQ(kernels_of(*built), (Names{"short", "vendor", "reference"}));
}

TEST_F(Library, ALockKeepsIt) {
  costs(50, 0.2, 2);
  const auto built = build_engine(options(), model(kProduct));
  ASSERT_TRUE(built.ok()) << built.error().text();
  costs(50, 20, 0.05);
  Options locked = options();
  locked.compile.lock = built->compiled.lock;
  const auto again = build_engine(locked, model(kProduct));
  ASSERT_TRUE(again.ok()) << again.error().text();
  EXPECT_EQ(kernels_of(*again), (Names{"short", "vendor"}));
}

TEST(LibraryAlone, RunsWhatNoOwnKernelTakes) {
  const kernels::AddedKernel vendor(kVendorKernel);
  const auto built = build_engine(options(), model("graph { input x: f32[24,8]; y = relu(x); output y }"));
  ASSERT_TRUE(built.ok()) << built.error().text();
  EXPECT_EQ(kernels_of(*built), (Names{"vendor"}));
}

TEST(WorthALibrary, WinsByMoreThanTwoTimesDiffer) {
  EXPECT_TRUE(lower::worth_a_library(0.9, 1));
  EXPECT_FALSE(lower::worth_a_library(0.99, 1));
  EXPECT_FALSE(lower::worth_a_library(1, 1));
}

}  // namespace
}  // namespace peri::build
