// Quantising and its opposite in every type, by scales of every form: each has a kernel beside the reference, whose
// answer is the reference's, at ties and beyond the range too.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "ir/graph.hpp"
#include "ops/entry.hpp"
#include "tune/tuner.hpp"

namespace peri::tune {
namespace {

// Whether a kernel of ours takes it; each that does has to be right.
void is_taken(const std::string& text) {
  Result<ir::Graph> graph = ir::parse_graph(text);
  ASSERT_TRUE(graph.ok()) << text << ": " << graph.error().text();
  const Status typed = ops::infer_graph(*graph);
  ASSERT_TRUE(typed.ok()) << text << ": " << typed.error().text();
  Options options;
  options.measure = false;
  options.provider = "peri";
  static Tuner tuner(options);
  constexpr int64_t kInline = 1000;
  std::vector<bool> constant(graph->inputs.size(), false);
  for (ir::Value* v : graph->constants()) {  // as in a region cut from a model
    if (v->constant->numel() <= kInline) continue;
    graph->replace_uses(v, graph->add_input("weight", v->type));
    constant.push_back(true);
  }
  graph->erase_dead();
  int taken = 0;
  for (const Candidate& c : tuner.candidates(*graph, constant).list) {
    EXPECT_EQ(c.evidence.rejected, "") << c.id() << " for " << text;
    EXPECT_LE(c.evidence.max_error, 1) << c.id() << " for " << text;
    taken += c.evidence.max_error >= 0;
  }
  EXPECT_GT(taken, 0) << text;
}

const std::vector<std::string> kIntegers = {"u8", "i8", "u16", "i16", "u4", "i4", "u2", "i2"};
const std::vector<std::string> kFloats = {"f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f4e2m1"};

std::string zero_of(const std::string& type) {
  return type == "u16"    ? "30000"
         : type == "i16"  ? "-700"
         : type[0] == 'f' ? "0.0"
         : type == "u8"   ? "100"
         : type == "i8"   ? "-3"
         : type[0] == 'u' ? "1"
                          : "-1";
}
// Scales and zero points of one shape; "splat" so that most numbers fall into the range.
std::string scales(const std::string& of, const std::string& shape, double scale, const std::string& type) {
  return "const s: " + of + shape + " = splat(" + std::to_string(scale) + "); const z: " + type + shape + " = splat(" +
         zero_of(type) + "); ";
}

struct Form {
  std::string x, scale, attributes;
};
// One scale, along the last axis, along one in the middle, blocks of the last axis (the last one short; more elements
// than are done at a time) and of another.
const std::vector<Form> kForms = {{"[3,701]", "[]", ""},
                                  {"[3,701]", "[701]", "axis=1"},
                                  {"[3,7,67]", "[7]", "axis=1"},
                                  {"[3,99]", "[3,4]", "axis=1, block_size=32"},
                                  {"[29,99]", "[29,13]", "axis=1, block_size=8"},
                                  {"[130,11]", "[130,4]", "axis=1, block_size=3"},
                                  {"[3,37,21]", "[3,3,21]", "axis=1, block_size=16"}};

std::string braced(const std::string& attributes) { return attributes.empty() ? "" : " {" + attributes + "}"; }

// float16 has few digits, so that many of its quotients by a power of two are ties.
TEST(Quantised, EveryTypeFromEveryFloat) {
  for (const auto& list : {kIntegers, kFloats})
    for (const std::string& to : list)
      for (const std::string from : {"f32", "f16", "bf16"})
        for (const Form& form : kForms)
          is_taken("graph { input x: " + from + form.x + "; " + scales(from, form.scale, 0.0625, to) +
                   "y = quantize_linear(x, s, z)" + braced(form.attributes) + "; output y }");
}

TEST(Quantised, EveryFloatFromEveryType) {
  for (const auto& list : {kIntegers, kFloats})
    for (const std::string& from : list)
      for (const std::string to : {"f32", "f16", "bf16"})
        for (const Form& form : kForms)
          is_taken("graph { input x: " + from + form.x + "; " + scales(to, form.scale, 0.37, from) +
                   "y = dequantize_linear(x, s, z)" + braced(form.attributes) + "; output y }");
}

// Each scale and zero point serves a few neighbours and differs from the next one's; rows end within a block.
TEST(Quantised, BlocksOfAFewNeighbours) {
  for (const std::string type : {"u8", "i8", "u16", "i16", "u4", "i4", "u2", "i2"})
    for (const std::string wide : {"f32", "f16", "bf16"})
      for (const int block : {1, 3, 8, 20, 63}) {
        constexpr int kRow = 131;
        const std::string blocks = "[19," + std::to_string((kRow + block - 1) / block) + "]",
                          given = "const s: " + wide + blocks + " = seeded(0.3, 1); const z: " + type + blocks +
                                  " = seeded(" + (type.size() == 2 && type[1] < '8' ? "1.5" : "40") + ", 2); ",
                          attributes = " {axis=1, block_size=" + std::to_string(block) + "}; output y }";
        is_taken("graph { input x: " + wide + "[19,131]; " + given + "y = quantize_linear(x, s, z)" + attributes);
        is_taken("graph { input x: " + type + "[19,131]; " + given + "y = dequantize_linear(x, s, z)" + attributes);
      }
}

TEST(Quantised, BeyondTheRangeAndWithoutAZeroPoint) {
  for (const std::string& type : kIntegers) {
    const auto dtype = parse_dtype(type);
    ASSERT_TRUE(dtype.ok());
    const std::string to = "{output_dtype=" + std::to_string(static_cast<int>(*dtype)) + "}";
    for (const std::string scale : {"0.00001", "1.0", "1e30", "-0.03", "3e-41"})
      is_taken("graph { input x: f32[5,300]; const s: f32[] = [" + scale + "]; y = quantize_linear(x, s) " + to +
               "; output y }");
    is_taken("graph { input x: " + type + "[5,300]; const s: f32[] = [0.3]; y = dequantize_linear(x, s); output y }");
  }
  is_taken("graph { input x: i32[5,300]; const s: f16[] = [0.3]; y = dequantize_linear(x, s); output y }");
  for (const std::string type : {"f8e4m3fn", "f8e5m2"})
    for (const std::string saturate : {"0", "1"})
      is_taken("graph { input x: f32[5,300]; const s: f32[] = [0.001]; const z: " + type +
               "[] = [0.0]; y = quantize_linear(x, s, z) {saturate=" + saturate + "}; output y }");
}

// Scales that the run brings, and the type of a quotient that is not the scale's.
TEST(Quantised, ScalesOfTheRun) {
  is_taken(
      "graph { input x: f32[5,300]; input s: f32[300]; input z: u16[300]; y = quantize_linear(x, s, z); output y }");
  is_taken(
      "graph { input x: i4[5,300]; input s: f16[5,10]; input z: i4[5,10]; y = dequantize_linear(x, s, z) {axis=1, "
      "block_size=32}; output y }");
  is_taken(
      "graph { input x: f16[5,300]; const s: f16[] = [0.3]; const z: i8[] = [3]; y = quantize_linear(x, s, z) "
      "{precision=1}; output y }");
  is_taken(
      "graph { input x: i16[5,300]; const s: f32[] = [0.3]; y = dequantize_linear(x, s) {output_dtype=3}; output y "
      "}");
}

// A cell whose weights are bytes: one block of units and many, sides that fill no vector, a sequence and more than are
// multiplied at a time, weights with and without a sign, small and large ones, one scale and one each.
TEST(Quantised, CellsWithWeightsOfAByte) {
  struct Size {
    int steps, batch, input, hidden;
  };
  for (const Size& s : {Size{4, 1, 16, 16}, Size{3, 2, 5, 3}, Size{5, 3, 67, 40}, Size{2, 45, 20, 150}})
    for (const std::string type : {"i8", "u8"})
      for (const double spread : {0.0001, 0.02, 3.0})
        for (const bool each : {false, true}) {
          const std::string n = std::to_string(4 * s.hidden), list = each ? "[1," + n + "]" : "[1]",
                            hidden = std::to_string(s.hidden), input = std::to_string(s.input),
                            scale = "f32" + list + " = splat(" + std::to_string(spread / 40) + ")";
          is_taken("graph { input x: f32[" + std::to_string(s.steps) + "," + std::to_string(s.batch) + "," + input +
                   "]; const w: " + type + "[1," + input + "," + n + "] = seeded(150, 1); const r: " + type + "[1," +
                   hidden + "," + n + "] = seeded(150, 2); const b: f32[1," + std::to_string(8 * s.hidden) +
                   "] = seeded(0.3, 3); const s: " + scale + "; const t: " + scale +
                   "; y, h, c = dynamic_quantize_lstm(x, w, r, b, _, _, _, _, s, _, t); output y; output h; output c "
                   "}");
        }
}

}  // namespace
}  // namespace peri::tune
