// check_program() refuses each kind of lie, bind_dims() names what does not fit, variants are chosen by machine and
// dims, and metadata survives encoding.
#include <gtest/gtest.h>

#include <functional>

#include "plan/engine_file.hpp"
#include "plan/sizes.hpp"
#include "tests/plan/programs.hpp"

namespace peri::plan {
namespace {

using tests::ProgramMaker;
using tests::small_program;

struct Lie {
  const char* says;  // part of the error
  std::function<void(Program&)> tell;
};

Step control(int depth) {
  Step s;
  s.executor = "if";
  s.variants.push_back({});
  s.writes = {0};
  ProgramMaker inner;
  inner.scratch("t", DType::kF32, "[1]");
  if (depth > 0) inner.p.steps.push_back(control(depth - 1));
  s.bodies.push_back(std::make_shared<Program>(inner.p));
  return s;
}

const Lie kLies[] = {
    {"reads buffer", [](Program& p) { p.steps[0].reads = {7}; }},
    {"reads buffer", [](Program& p) { p.steps[0].reads = {-2}; }},
    {"writes buffer", [](Program& p) { p.steps[0].writes = {4}; }},
    {"writes nothing", [](Program& p) { p.steps[0].writes = {}; }},
    {"before it is written", [](Program& p) { std::swap(p.steps[0], p.steps[1]); }},
    {"into an input", [](Program& p) { p.steps[0].writes = {0}; }},
    {"into an input", [](Program& p) { p.steps[1].writes = {1}; }},
    {"into an input", [](Program& p) { p.buffers[2].alias_of = 0; }},
    {"alias of buffer", [](Program& p) { p.buffers[2].alias_of = 3; }},
    {"alias of buffer", [](Program& p) { p.buffers[2].alias_of = 2; }},
    {"alias of buffer", [](Program& p) { p.buffers[2].alias_of = -7; }},
    {"cannot be an alias", [](Program& p) { p.buffers[1].alias_of = 0; }},
    {"does not follow", [](Program& p) { p.buffers[2].bytes = Dim(4); }},
    {"does not follow", [](Program& p) { p.buffers[2].layout = "01:1x16"; }},
    {"bad layout", [](Program& p) { p.buffers[2].layout = "01:9x16"; }},
    {"overflows", [](Program& p) { p.buffers[2].bytes = Dim::poison(); }},
    {"not in the table", [](Program& p) { p.dims = {"n"}; }},
    {"named twice", [](Program& p) { p.dims = {"batch", "batch"}; }},
    {"not bound by then",
     [](Program& p) {
       p.buffers[2].shape[1] = Dim::symbol("n");
       p.buffers[2].bytes = Dim::symbol("n") * Dim::symbol("batch") * Dim(4);
     }},
    {"not bound by then",
     [](Program& p) { p.buffers[2].shape = {Dim::symbol("n"), Dim(0)}, p.buffers[2].bytes = Dim(0); }},
    {"binds dimension", [](Program& p) { p.steps[0].binds = {"batch"}; }},
    {"binds dimension", [](Program& p) { p.steps[0].binds = {"unknown"}; }},
    {"outside the weight section", [](Program& p) { p.weights[0].offset = 64; }},
    {"outside the weight section", [](Program& p) { p.weights[0].offset = 8; }},
    {"outside the weight section", [](Program& p) { p.weights[0].offset = ~uint64_t{63}; }},
    {"does not follow", [](Program& p) { p.weights[0].bytes = 8; }},
    {"", [](Program& p) { p.weights[0].dims = {int64_t{1} << 62, 4}; }},
    {"", [](Program& p) { p.weights[0].dims = {-4}; }},
    {"differs from its weight", [](Program& p) { p.weights[0].dims = {2}, p.weights[0].bytes = 8; }},
    {"weight index", [](Program& p) { p.buffers[1].weight = 1; }},
    {"weight index", [](Program& p) { p.buffers[2].weight = 0; }},
    {"alignment", [](Program& p) { p.buffers[2].alignment = 1; }},
    {"alignment", [](Program& p) { p.buffers[2].alignment = 96; }},
    {"device", [](Program& p) { p.buffers[2].device = 1; }},
    {"element type", [](Program& p) { p.buffers[2].dtype = static_cast<DType>(99); }},
    {"rank", [](Program& p) { p.buffers[2].shape.assign(33, Dim(1)); }},
    {"waits for", [](Program& p) { p.steps[0].waits_for = {0}; }},
    {"needs an executor", [](Program& p) { p.steps[0].executor = ""; }},
    {"needs an executor", [](Program& p) { p.steps[0].variants.clear(); }},
    {"stands twice", [](Program& p) { p.inputs.push_back(p.inputs[0]); }},
    {"stands twice", [](Program& p) { p.outputs.push_back(p.outputs[0]); }},
    {"no input buffer", [](Program& p) { p.inputs[0].buffer = 2; }},
    {"no input buffer", [](Program& p) { p.inputs[0].buffer = -1; }},
    {"without an input", [](Program& p) { p.inputs.clear(); }},
    {"another type", [](Program& p) { p.inputs[0].dtype = DType::kI32; }},
    {"another type", [](Program& p) { p.outputs[0].shape = {Dim(4)}; }},
    {"no buffer", [](Program& p) { p.outputs[0].buffer = 4; }},
    {"never written", [](Program& p) { p.steps.pop_back(); }},
    {"state's dimension",
     [](Program& p) {
       p.buffers[2].kind = BufferKind::kState;
       p.buffers[2].shape[0] = Dim::symbol("n");
       p.buffers[2].bytes = Dim::symbol("n") * Dim(16);
     }},
    {"too deep", [](Program& p) { p.steps.push_back(control(20)), p.steps.back().writes = {3}; }},
    {"no weights of its own",
     [](Program& p) { p.steps[0].bodies.push_back(std::make_shared<Program>(small_program().p)); }},
    {"no weights of its own", [](Program& p) { p.steps[0].bodies.push_back(nullptr); }},
};

TEST(CheckProgram, RefusesEachLie) {
  ASSERT_TRUE(check_program(small_program().p, 16).ok()) << check_program(small_program().p, 16).error().text();
  for (size_t k = 0; k < std::size(kLies); ++k) {
    SCOPED_TRACE("lie " + std::to_string(k) + ": " + kLies[k].says);
    Program p = small_program().p;
    kLies[k].tell(p);
    const Status s = check_program(p, 16);
    ASSERT_FALSE(s.ok());
    EXPECT_NE(s.error().text().find(kLies[k].says), std::string::npos) << s.error().text();
  }
}

// x -> a -> b in place of a -> c, with a view of a.
ProgramMaker in_place() {
  ProgramMaker m;
  m.p.dims = {"n"};
  const int32_t x = m.input("x", DType::kF32, "[n]"), a = m.scratch("a", DType::kF32, "[n]");
  const int32_t b = m.scratch("b", DType::kF32, "[n]");
  m.p.buffers.back().alias_of = a;
  const int32_t view = m.scratch("view", DType::kF32, "[1,n]");
  m.p.buffers.back().alias_of = b;
  const int32_t c = m.buffer("c", BufferKind::kOutput, DType::kF32, "[1,n]");
  m.step("e", {x}, {a});
  m.step("e", {x, a}, {b}).shares = {1};
  m.step("e", {view}, {c});
  m.output("c", c);
  return m;
}

const Lie kSharingLies[] = {
    {"nothing allows it", [](Program& p) { p.steps[1].shares = {}; }},
    {"nothing allows it", [](Program& p) { p.steps[1].shares = {-1}; }},
    {"not an alias of the argument", [](Program& p) { p.steps[1].shares = {0}; }},
    {"not an alias of the argument", [](Program& p) { p.steps[1].shares = {7}; }},
    {"not an alias of the argument", [](Program& p) { p.steps[1].shares = {-2}; }},
    {"not an alias of the argument", [](Program& p) { p.steps[0].shares = {0}; }},
    {"sharing for 2 results", [](Program& p) { p.steps[1].shares = {1, -1}; }},
    {"another type", [](Program& p) { p.buffers[1].dtype = p.buffers[2].dtype = p.buffers[3].dtype = DType::kI32; }},
    {"another type", [](Program& p) { p.buffers[2].shape = {Dim(1), Dim::symbol("n")}; }},
    {"memory another result has taken", [](Program& p) { p.steps[2].reads = {1}; }},
    {"memory another result has taken", [](Program& p) { p.buffers[3].alias_of = 1; }},
    {"another result has taken its memory",
     [](Program& p) {
       p.outputs[0].buffer = 1;
       p.outputs[0].shape = p.buffers[1].shape;
     }},
    {"two results share memory",
     [](Program& p) { p.steps[1].writes = {2, 1}, p.steps[1].reads = {0}, p.steps[1].shares = {}; }},
};

TEST(CheckProgram, RefusesEachLieAboutSharedMemory) {
  ASSERT_TRUE(check_program(in_place().p, 0).ok()) << check_program(in_place().p, 0).error().text();
  for (size_t k = 0; k < std::size(kSharingLies); ++k) {
    SCOPED_TRACE("lie " + std::to_string(k) + ": " + kSharingLies[k].says);
    Program p = in_place().p;
    kSharingLies[k].tell(p);
    const Status s = check_program(p, 0);
    ASSERT_FALSE(s.ok());
    EXPECT_NE(s.error().text().find(kSharingLies[k].says), std::string::npos) << s.error().text();
  }
}

TEST(CheckProgram, LongAliasChainsTakeLinearTime) {
  ProgramMaker m = small_program();
  for (int k = 0; k < 100000; ++k) {
    m.scratch("a", DType::kF32, "[batch,4]");
    m.p.buffers.back().alias_of = k ? static_cast<int32_t>(m.p.buffers.size()) - 2 : 2;
  }
  m.p.steps[1].reads.assign(100000, static_cast<int32_t>(m.p.buffers.size()) - 1);
  EXPECT_TRUE(check_program(m.p, 16).ok());
  EXPECT_EQ(lifetimes(m.p)[2].last, 1);
}

TEST(BindDims, NamesInputAndAxis) {
  ProgramMaker m = small_program();
  m.input("mask", DType::kF32, "[2*batch,batch]");
  const auto good = bind_dims(m.p, {{3, 4}, {6, 3}});
  ASSERT_TRUE(good.ok()) << good.error().text();
  EXPECT_EQ(good->at("batch"), 3);
  struct Case {
    std::vector<std::vector<int64_t>> dims;
    const char* node;
    const char* says;
  };
  for (const Case& c : {Case{{{3, 4}}, "", "1 input given, the engine has 2"}, Case{{{3, 4, 1}, {6, 3}}, "x", "rank"},
                        Case{{{3, 5}, {6, 3}}, "x", "dimension 1"}, Case{{{3, 4}, {5, 3}}, "mask", "dimension 0"},
                        Case{{{3, 4}, {6, 2}}, "mask", "from input 'x'"}, Case{{{0, 4}, {0, 0}}, "x", "at least 1"},
                        Case{{{-1, 4}, {6, 3}}, "x", "-1"}, Case{{{int64_t{1} << 41, 4}, {6, 3}}, "x", ""}}) {
    const auto bad = bind_dims(m.p, c.dims);
    ASSERT_FALSE(bad.ok());
    EXPECT_EQ(bad.error().kind, ErrorKind::kUsage);
    EXPECT_EQ(bad.error().node, c.node);
    EXPECT_NE(bad.error().text().find(c.says), std::string::npos) << bad.error().text();
  }
}

TEST(BindDims, OnlyADimensionFromZeroMayBe0) {
  ProgramMaker m = small_program();
  m.input("past", DType::kF32, "[n?,batch]");
  EXPECT_TRUE(bind_dims(m.p, {{3, 4}, {0, 3}}).ok());
  const auto bad = bind_dims(m.p, {{0, 4}, {2, 0}});
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().text().find("--min-shapes x:0x4"), std::string::npos) << bad.error().text();
  const ProgramSizes sizes = compile_sizes(m.p);
  std::vector<int64_t> values;
  EXPECT_TRUE(bind_sizes(m.p, sizes, {{3, 4}, {0, 3}}, &values).ok());
  EXPECT_FALSE(bind_sizes(m.p, sizes, {{0, 4}, {2, 0}}, &values).ok());
}

TEST(ChooseVariant, FirstThatFitsMachineAndDims) {
  Step s;
  s.name = "conv1";
  s.variants = {{"avx512", "", {{Dim::symbol("batch"), 1}}, ""}, {"", "onednn 3.2.0", {}, ""}, {"avx2", "", {}, ""}};
  EXPECT_EQ(choose_variant(s, {{"avx2", "avx512"}, {}}, {{"batch", 1}}).value(), 0u);
  EXPECT_EQ(choose_variant(s, {{"avx2", "avx512"}, {}}, {{"batch", 2}}).value(), 2u);
  EXPECT_EQ(choose_variant(s, {{"avx2", "avx512"}, {}}, {}).value(), 2u);
  EXPECT_EQ(choose_variant(s, {{}, {"onednn 3.2.0"}}, {{"batch", 1}}).value(), 1u);
  const auto none = choose_variant(s, {}, {{"batch", 1}});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::kRefused);
  EXPECT_NE(none.error().text().find("onednn 3.2.0"), std::string::npos);
}

TEST(Metadata, SurvivesEncoding) {
  ProgramMaker m = small_program();
  m.p.steps[0].bodies.push_back(std::make_shared<Program>(ProgramMaker().p));
  m.p.steps[0].binds = {"n"};
  m.p.steps[0].variants[0].holds_for = {{Dim::symbol("batch"), 2}};
  m.p.tuned_for["batch"] = 1;
  m.p.sections.push_back({"source", std::string("a\0b", 3)});
  const std::string bytes = encode_program(m.p);
  auto back = decode_program(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(back.ok()) << back.error().text();
  EXPECT_EQ(encode_program(*back), bytes);
  EXPECT_EQ(back->section("source")->bytes.size(), 3u);
  EXPECT_EQ(back->steps[0].variants[0].holds_for[0].second, 2);
}

}  // namespace
}  // namespace peri::plan
