// Recurrent cells with each function of ONNX's list and its parameters, with weights that the run brings, and of
// float64: each has a kernel beside the reference, whose answer is the reference's.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/target.hpp"
#include "ir/graph.hpp"
#include "kernels/entry.hpp"
#include "ops/entry.hpp"
#include "tune/tuner.hpp"

namespace peri::tune {
namespace {

// Whether a kernel of ours takes it; each that does has to be right, and `config` among their configurations. Inputs
// whose names begin with w are weights.
void is_taken(const std::string& text, const std::string& config = "") {
  Result<ir::Graph> graph = ir::parse_graph(text);
  ASSERT_TRUE(graph.ok()) << text << ": " << graph.error().text();
  const Status typed = ops::infer_graph(*graph);
  ASSERT_TRUE(typed.ok()) << text << ": " << typed.error().text();
  Options options;
  options.measure = false;
  options.provider = "peri";
  static Tuner tuner(options);
  std::vector<bool> constant;
  for (const ir::Value* v : graph->inputs) constant.push_back(v->name[0] == 'w');
  int taken = 0;
  bool found = config.empty();
  for (const Candidate& c : tuner.candidates(*graph, constant).list) {
    found |= c.offer.config == config;
    EXPECT_EQ(c.evidence.rejected, "") << c.id() << " for " << text;
    EXPECT_LE(c.evidence.max_error, 1) << c.id() << " for " << text;
    taken += c.evidence.max_error >= 0;
  }
  EXPECT_GT(taken, 0) << text;
  EXPECT_TRUE(found) << text;
}

struct Cell {
  std::string op, more;
  int gates, functions;
};
const std::vector<Cell> kCells = {
    {"rnn", "", 1, 1}, {"gru", "", 3, 2}, {"gru", "linear_before_reset=1, ", 3, 2}, {"lstm", "", 4, 3}};

// A cell of `hidden` units with bias; `attributes` without braces.
std::string cell_text(const Cell& cell, const std::string& type, const std::string& weight, int hidden, int directions,
                      const std::string& attributes) {
  const std::string h = std::to_string(hidden), n = std::to_string(cell.gates * hidden),
                    b = std::to_string(2 * cell.gates * hidden), d = std::to_string(directions);
  return "graph { input x: " + type + "[4,3,9]; input " + weight + "0: " + type + "[" + d + "," + n + ",9]; input " +
         weight + "1: " + type + "[" + d + "," + n + "," + h + "]; input " + weight + "2: " + type + "[" + d + "," + b +
         "]; y, k = " + cell.op + "(x, " + weight + "0, " + weight + "1, " + weight + "2) {" + attributes +
         "}; output y; output k }";
}

// Names joined as an attribute; each function takes the parameters that come next.
std::string repeated(const std::string& what, int times) {
  std::string list;
  for (int k = 0; k < times; ++k) list += (k ? ", " : "") + what;
  return list;
}

struct Function {
  std::string name, alpha, beta;  // empty: the default
};
const std::vector<Function> kFunctions = {
    {"Tanh", "", ""},
    {"Sigmoid", "", ""},
    {"Relu", "", ""},
    {"Affine", "0.4", "-0.2"},
    {"LeakyRelu", "0.3", ""},
    {"LeakyRelu", "", ""},
    {"Elu", "0.7", ""},
    {"ThresholdedRelu", "0.25", ""},
    {"ScaledTanh", "0.6", "1.4"},
    {"HardSigmoid", "0.3", "0.4"},
    {"HardSigmoid", "", ""},
    {"Softsign", "", ""},
    {"Softplus", "", ""},
    {"ELU", "", ""},
};
std::string attributes_of(const Function& f, int times) {
  std::string list = "activations=strings[" + repeated("\"" + f.name + "\"", times) + "]";
  if (!f.alpha.empty()) list = "activation_alpha=[" + repeated(f.alpha, times) + "], " + list;
  if (!f.beta.empty()) {
    const size_t at = list.find("activations=");
    list.insert(at, "activation_beta=[" + repeated(f.beta, times) + "], ");
  }
  return list;
}

TEST(Cells, EveryFunction) {
  for (const Cell& cell : kCells)
    for (const Function& f : kFunctions)
      for (const int hidden : {3, 41})
        is_taken(cell_text(cell, "f32", "w", hidden, 1, cell.more + attributes_of(f, cell.functions)));
}

// Parameters go to the functions that have them, in their order, over both directions.
TEST(Cells, ParametersOfSeveralFunctions) {
  is_taken(cell_text(kCells[3], "f32", "w", 21, 2,
                     "activation_alpha=[0.3, 0.5, 0.2, 0.8], activation_beta=[0.4, 0.6, 1.3], "
                     "activations=strings[\"HardSigmoid\", \"Tanh\", \"LeakyRelu\", \"HardSigmoid\", \"ScaledTanh\", "
                     "\"Softsign\"], clip=2.0, direction=\"bidirectional\""));
  is_taken(cell_text(kCells[0], "f32", "w", 21, 2,
                     "activation_alpha=[0.3, 0.5], activations=strings[\"Elu\", \"ThresholdedRelu\"], "
                     "direction=\"bidirectional\""));
}

// Tasks of whole directions, where a step has several blocks of units, which is a choice, and where it has one.
TEST(Cells, StepsInOneTask) {
  for (const Cell& cell : kCells) {
    is_taken(cell_text(cell, "f32", "w", 400, 2, cell.more + "direction=\"bidirectional\""), "steps=256");
    std::string text = cell_text(cell, "f32", "w", 5, 2, cell.more + "direction=\"bidirectional\"");
    is_taken(text.replace(text.find("[4,3,9]"), 7, "[517,1,9]"));  // more steps than a task has
  }
}

// More rows of inputs than are multiplied together, in both directions, with steps left over; lengths, and sequences
// one after the other.
TEST(Cells, InputsOfSomeStepsAtATime) {
  const auto sized = [](std::string text, const std::string& x) { return text.replace(text.find("[4,3,9]"), 7, x); };
  for (const Cell& cell : kCells) {
    const std::string both = cell.more + "direction=\"bidirectional\"", n = std::to_string(cell.gates * 20);
    for (const std::string& direction : {both, cell.more + "direction=\"reverse\""})
      is_taken(sized(cell_text(cell, "f32", "w", 41, direction == both ? 2 : 1, direction), "[100,3,9]"));
    is_taken(sized(cell_text(cell, "f32", "w", 300, 2, both), "[50,3,9]"), "");
    is_taken(sized(cell_text(cell, "f32", "v", 41, 2, both), "[2,150,9]"));
    is_taken(sized(cell_text(cell, "f32", "w", 41, 2, both + ", layout=1"), "[3,100,9]"));
    is_taken("graph { input x: f32[70,3,7]; input w: f32[2," + n + ",7]; input w1: f32[2," + n +
             ",20]; input n: i32[3]; y, h = " + cell.op + "(x, w, w1, _, n) {" + both + "}; output y; output h }");
  }
  is_taken(
      "graph { input x: f32[90,3,9]; input w0: i8[1,9,84]; input w1: i8[1,21,84]; const s: f32[1] = [0.008]; y, h, c = "
      "dynamic_quantize_lstm(x, w0, w1, _, _, _, _, _, s, _, s) {direction=\"reverse\"}; output y; output h; output c "
      "}");
}

// The sums of a thousand steps' inputs, 65 MB, are never in memory together.
TEST(Cells, AsMuchMemoryForAThousandStepsAsForSome) {
  Result<ir::Graph> graph = ir::parse_graph(
      "graph { input x: f32[1000,32,128]; input w: f32[1,512,128]; input r: f32[1,512,128]; y, h = lstm(x, w, r); "
      "output y; output h }");
  ASSERT_TRUE(graph.ok() && ops::infer_graph(*graph).ok());
  const kernels::Kernel* const kernel = kernels::find("recurrent_f32");
  ASSERT_NE(kernel, nullptr);
  const kernels::Problem problem{&*graph, {false, false, false}};
  const std::vector<Tensor> none(3);
  const auto& target = device::this_cpu();
  const auto made = kernel->instantiate(problem, "", {none, nullptr, &target});
  ASSERT_TRUE(made.ok()) << made.error().text();
  EXPECT_LT((*made)->workspace_bytes(), size_t{2} << 20);
}

// Where weights are bytes, too.
TEST(Cells, FunctionsBesideWeightsOfAByte) {
  for (const Function& f : kFunctions)
    is_taken(
        "graph { input x: f32[3,2,9]; input w0: i8[1,9,84]; input w1: i8[1,21,84]; const s: f32[1] = [0.008]; y, h, c "
        "= dynamic_quantize_lstm(x, w0, w1, _, _, _, _, _, s, _, s) {" +
        attributes_of(f, 3) + "}; output y; output h; output c }");
}

// Weights that the run brings, of one block of units and of several, of more columns than are packed at a time.
TEST(Cells, WeightsOfTheRun) {
  for (const Cell& cell : kCells)
    for (const int hidden : {3, 41, 150})
      for (const int directions : {1, 2}) {
        const std::string both = directions == 2 ? "direction=\"bidirectional\"" : "direction=\"forward\"";
        is_taken(cell_text(cell, "f32", "v", hidden, directions, cell.more + both));
        is_taken(cell_text(cell, "f32", "w", hidden, directions, cell.more + both));
      }
}

// Of float64: one sequence and more than a task has, steps beyond those that are multiplied together, lengths of
// nothing.
TEST(Cells, OfFloat64) {
  for (const Cell& cell : kCells)
    for (const Function& f : kFunctions)
      for (const int hidden : {3, 41})
        is_taken(cell_text(cell, "f64", "w", hidden, 1, cell.more + attributes_of(f, cell.functions)));
  for (const Cell& cell : kCells)
    for (const std::string sizes : {"1,40", "11,17"})
      for (const std::string layout : {"0", "1"}) {
        const size_t comma = sizes.find(',');
        const std::string b = sizes.substr(0, comma), t = sizes.substr(comma + 1), n = std::to_string(cell.gates * 20);
        is_taken("graph { input x: f64[" + (layout == "0" ? t + "," + b : b + "," + t) + ",7]; input w: f64[2," + n +
                 ",7]; input w1: f64[2," + n + ",20]; input n: i32[" + b + "]; y, h = " + cell.op +
                 "(x, w, w1, _, n) {" + cell.more + "clip=1.5, direction=\"bidirectional\", layout=" + layout +
                 "}; output y; output h }");
      }
}

// Some of them known, and one that only the last part of a step reads.
TEST(Cells, SomeWeightsOfTheRun) {
  for (const std::string names : {"w v v", "v w v", "v v w", "w w v"}) {
    const std::string w = names.substr(0, 1) + "0", r = names.substr(2, 1) + "1", b = names.substr(4, 1) + "2";
    is_taken("graph { input x: f32[4,3,9]; input " + w + ": f32[1,84,9]; input " + r + ": f32[1,84,21]; input " + b +
             ": f32[1,168]; input v3: f32[1,63]; y, h, c = lstm(x, " + w + ", " + r + ", " + b +
             ", _, _, _, v3); output y; output c }");
  }
}

}  // namespace
}  // namespace peri::tune
