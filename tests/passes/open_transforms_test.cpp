// Fourier transforms become products with the same meaning, in one product or in two, whatever their length, direction
// and kind, and how many lines there are.
// label: null
#include <gtest/gtest.h>

#include <algorithm>

#include "passes/pipeline.hpp"
#include "tests/passes/meaning.hpp"

namespace peri::passes {
namespace {

// How many products stand for the transform; -1: it is still there.
int64_t products(const std::string& shape, const std::string& attrs, const std::string& length = "_",
                 const std::string& axis = "-2") {
  const std::string text = "graph { input x: f32[" + shape + "]; const a: i64[1] = [" + axis + "]; " +
                           (length == "_" ? "" : "const l: i64[1] = [" + length + "]; ") + "y = dft(x, " +
                           (length == "_" ? "_" : "l") + ", a) {" + attrs + "}; output y }";
  SCOPED_TRACE(text);
  auto graph = ir::parse_graph(text);
  if (!graph.ok() || !ops::infer_graph(*graph).ok()) {
    ADD_FAILURE() << "no graph";
    return -2;
  }
  const ir::Graph before = graph->clone();
  const auto report = run_pass(*find("open_transforms"), *graph, {});
  if (!report.ok()) {
    ADD_FAILURE() << report.error().text();
    return -2;
  }
  for (const uint64_t seed : {1, 2}) expect_same_meaning(before, *graph, seed);
  const auto count = [&](std::string_view op) {
    return std::count_if(graph->nodes.begin(), graph->nodes.end(), [&](const ir::Node* n) { return n->op == op; });
  };
  return count("dft") > 0 ? -1 : count("matmul");
}

TEST(OpenTransforms, FewShortLinesAreOneProduct) {
  EXPECT_EQ(products("1,400,1", "onesided=1"), 1);
  EXPECT_EQ(products("n,64,2", "inverse=1"), 1);
  EXPECT_EQ(products("2,12,1", "", "9"), 1);  // cut
  EXPECT_EQ(products("2,9,2", "", "12"), 1);  // ends in zeros
}

TEST(OpenTransforms, LongOrManyLinesAreTwoProducts) {
  EXPECT_EQ(products("1,4096,1", "onesided=1"), 2);
  EXPECT_EQ(products("1,4096,1", ""), 2);
  EXPECT_EQ(products("2,1500,2", ""), 2);  // 50 by 30
  EXPECT_EQ(products("2,1500,2", "inverse=1"), 2);
  EXPECT_EQ(products("n,2500,1", "onesided=1"), 2);   // half of 50 by 50: a bin is cut off
  EXPECT_EQ(products("m,2,2310,2", "inverse=1"), 2);  // 55 by 42
  EXPECT_EQ(products("48,400,2", ""), 2);
  EXPECT_EQ(products("2,2050,1", "onesided=1"), 2);  // 50 by 41
}

TEST(OpenTransforms, AnyAxis) {
  EXPECT_EQ(products("12,n,2", "", "_", "0"), 1);
  EXPECT_EQ(products("2,12,3,5,2", "inverse=1", "_", "1"), 1);
  EXPECT_EQ(products("2,12,3,5,1", "onesided=1", "16", "-4"), 1);
  EXPECT_EQ(products("1500,n,2", "", "_", "0"), 2);
  EXPECT_EQ(products("2,4096,n,1", "onesided=1", "_", "-3"), 2);
}

TEST(OpenTransforms, AnInverseToRealValuesIsOneProductOrTwo) {
  EXPECT_EQ(products("2,6,10,2", "inverse=1, onesided=1", "10", "1"), 1);
  EXPECT_EQ(products("2,6,2", "inverse=1, onesided=1", "10"), 1);
  EXPECT_EQ(products("2,6,2", "inverse=1, onesided=1", "11"), 1);
  EXPECT_EQ(products("n,6,2", "inverse=1, onesided=1"), 1);        // of length 10
  EXPECT_EQ(products("2,4,2", "inverse=1, onesided=1", "10"), 1);  // not all bins are held
  EXPECT_EQ(products("2,9,2", "inverse=1, onesided=1", "10"), 1);  // too many are
  EXPECT_EQ(products("2,1,2", "inverse=1, onesided=1", "1"), 1);
  EXPECT_EQ(products("1,4097,2", "inverse=1, onesided=1"), 2);          // 8,192: all bins, in two steps
  EXPECT_EQ(products("1,1125,2", "inverse=1, onesided=1", "2249"), 2);  // odd: 173 by 13
  EXPECT_EQ(products("1,1025,1,2", "inverse=1, onesided=1", "_", "1"), 2);
  EXPECT_EQ(products("6,1025,2", "inverse=1, onesided=1"), 1);           // more lines share the matrix
  EXPECT_EQ(products("1,4097,2", "inverse=1, onesided=1", "8191"), -1);  // a prime, and too large a matrix
}

// The op that stands for the transform of frames: "conv", or "matmul" for two products of frames that are joined.
std::string form_of_frames(const std::string& signal, int64_t step, int64_t frame, bool window = true) {
  const std::string text = "graph { input x: f32[" + signal + "]; const s: i64[] = [" + std::to_string(step) + "]; " +
                           (window ? "const w: f32[" + std::to_string(frame) + "] = seeded(0.5, 1); y = stft(x, s, w) "
                                   : "const l: i64[] = [" + std::to_string(frame) + "]; y = stft(x, s, _, l) ") +
                           "{onesided=1}; output y }";
  SCOPED_TRACE(text);
  auto graph = ir::parse_graph(text);
  if (!graph.ok() || !ops::infer_graph(*graph).ok()) return "no graph";
  const ir::Graph before = graph->clone();
  const auto report = run_pass(*find("open_transforms"), *graph, {});
  if (!report.ok() || report->rewrites != 1) return "not opened";
  if (signal.find('n') == std::string::npos) expect_same_meaning(before, *graph, 1);
  const auto has = [&](std::string_view op) {
    return std::any_of(graph->nodes.begin(), graph->nodes.end(), [&](const ir::Node* n) { return n->op == op; });
  };
  return has("conv") ? "conv" : has("matmul") && !has("stft") ? "matmul" : "neither";
}

TEST(OpenTransforms, ManyShortFramesAreAConvolution) {
  EXPECT_EQ(form_of_frames("1,n,1", 160, 400), "conv");
  EXPECT_EQ(form_of_frames("2,4000,1", 160, 400), "conv");
  EXPECT_EQ(form_of_frames("2,4000", 160, 400), "conv");
  EXPECT_EQ(form_of_frames("1,2100,1", 700, 2048), "conv");  // blocks of 4: 512 slices
}

TEST(OpenTransforms, LongFramesAreJoinedFromSlicesAndTransformedInTwoProducts) {
  EXPECT_EQ(form_of_frames("2,3600,1", 512, 2048), "matmul");
  EXPECT_EQ(form_of_frames("2,3600", 512, 2048), "matmul");
  EXPECT_EQ(form_of_frames("1,n,1", 512, 2048), "matmul");
  EXPECT_EQ(form_of_frames("1,3584,1", 768, 2048), "matmul");          // 3 blocks of 256 apart
  EXPECT_EQ(form_of_frames("1,4096,1", 2048, 2048, false), "matmul");  // no overlap: two frames
  EXPECT_EQ(form_of_frames("1,4999,1", 3000, 2000, false), "matmul");  // samples between frames are skipped
}

TEST(OpenTransforms, ALengthWithoutFactorsStaysWhereItsMatrixIsLarge) {
  EXPECT_EQ(products("1,499,1", "onesided=1"), 1);
  EXPECT_EQ(products("1,2053,1", "onesided=1"), -1);
  EXPECT_EQ(products("1,2062,1", "onesided=1"), -1);  // 1,031 by 2
  EXPECT_EQ(products("1,3000,1", "", "2999"), -1);    // cut
}

}  // namespace
}  // namespace peri::passes
