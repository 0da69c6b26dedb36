// A manifest is read or refused with its field and a remedy; the region it names is matched whatever its operands are
// called; the launch has the geometry and the parameters that it states.
#include "kernels/outside/outside.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/file.hpp"
#include "device/target.hpp"
#include "kernels/outside/manifest.hpp"
#include "kernels/outside/pattern.hpp"
#include "ops/entry.hpp"
#include "tests/places.hpp"

namespace peri::kernels::outside {
namespace {
using Form = cuda::KernelLaunch::Form;
using From = cuda::LaunchArgument::From;

ir::Graph parsed(const std::string& text) {
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok() && g->sort().ok() && ops::infer_graph(*g).ok()) << text;
  return std::move(*g);
}
Target gpu(const char* chip = "sm_90") {
  Target out = device::cpu_target(1);
  out.isas.push_back(chip);
  return out;
}
// A manifest with one part of it replaced.
std::string with(const std::string& part = "", const std::string& by = "") {
  std::string text = R"json({"name": "outside_a", "version": 3, "source": {"cuda": "a.cu"}, "chips": ["sm_80+"],
    "pattern": "graph { input x: f16[n,2*c]; input w: f16[n,2*c]; input z: f16[c]; a = mul(x, w); y = softmax(a); output y; u = relu(z); output u }",
    "entry": "peri_a", "sizes": {"c": {"multiple_of": 8, "from": 16, "to": 96}}, "tunables": {"ROWS": [4, 2]},
    "grid": ["floordiv(n + ROWS - 1, ROWS)", "c", 2], "threads": "2*c", "shared_bytes": "4*ROWS",
    "arguments": ["w", "i32 c", "null", "y", "f32 0.5", "x", "i64 n*c", "z", "u"]})json";
  if (const size_t at = text.find(part); !part.empty()) text.replace(at, part.size(), by);
  return text;
}

TEST(OutsideManifest, IsRead) {
  const auto m = parse_manifest(with(), "a.json");
  ASSERT_TRUE(m.ok()) << m.error().text();
  EXPECT_EQ(m->name, "outside_a");
  EXPECT_EQ(m->version, 3);
  EXPECT_EQ(m->form, Form::kSource);
  EXPECT_EQ(m->parameters.size(), 9u);
  EXPECT_EQ(m->sizes.size(), 2u) << "2*c is bound by the input that has c by itself";
  EXPECT_EQ(m->sizes.at("c").at_least(20), 24);
  EXPECT_EQ(m->sizes.at("c").at_least(1000), 96);
  EXPECT_TRUE(m->chips[0].newer);
}

TEST(OutsideManifest, ARefusalNamesFileFieldAndRemedy) {
  struct Case {
    const char *part, *by;
    std::vector<const char*> says;
  };
  const Case cases[] = {
      {"\"threads\"", "\"thread\"", {"'thread'", "did you mean 'threads'?"}},
      {"\"version\": 3", "\"version\": 0", {"version"}},
      {"\"version\": 3,", "", {"'version'", "missing", "docs/outside-kernels.md"}},
      {"{\"cuda\": \"a.cu\"}", "{\"cu\": \"a.cu\"}", {"source", "{\"ptx\": FILE}"}},
      {"\"chips\": [\"sm_80+\"]", "\"chips\": [\"sm_70\"]", {"chips", "sm_80+", "found 'sm_70'"}},
      {"\"chips\": [\"sm_80+\"]", "\"chips\": [80]", {"chips", "found number"}},
      {"\"name\": \"outside_a\"", "\"name\": \"9 lives\"", {"name", "found '9 lives'"}},
      {"\"name\": \"outside_a\"", "\"name\": 9", {"name", "found number"}},
      {"\"chips\": [\"sm_80+\"]", "\"chips\": []", {"chips", "no chip"}},
      {"softmax(a)", "softmux(a)", {"pattern", "unknown op 'softmux'"}},
      {"\"2*c\", \"shared", "\"2*d\", \"shared", {"threads", "c, n, ROWS", "found d"}},
      {"\"i32 c\"", "\"i32 \"", {"arguments[1]", "i32 SIZE"}},
      {"\"i32 c\"", "\"i16 c\"", {"arguments[1]", "i32 SIZE"}},
      {"\"y\", \"f32", "\"x\", \"f32", {"arguments", "an output of the pattern"}},
      {"\"f32 0.5\"", "\"f32 nan\"", {"arguments[4]"}},
      {"\"multiple_of\": 8", "\"multiple_of\": 97", {"sizes.c", "no size obeys it"}},
      {"\"multiple_of\"", "\"multiples\"", {"sizes.c", "multiple_of, from, to"}},
      {"[4, 2]", "[]", {"tunables.ROWS"}},
      {"\"grid\": [", "\"grid\": [1, ", {"grid", "one to three"}},
      {"\"entry\": \"peri_a\"", "\"entry\": \"peri a\"", {"entry", "letters", "found 'peri a'"}},
      {"\"2*c\", \"shared", "0, \"shared", {"'threads'", "1 to 1024", "found 0"}},
      {"\"2*c\", \"shared", "-1, \"shared", {"'threads'", "1 to 1024", "found -1"}},
      {"\"2*c\", \"shared", "1025, \"shared", {"'threads'", "1 to 1024", "found 1025"}},
      {"\"2*c\", \"shared", "\"1000 + 25\", \"shared", {"'threads'", "found 1025"}},
      {"\"floordiv(n + ROWS - 1, ROWS)\"", "0", {"'grid[0]'", "1 to 2147483647", "found 0"}},
      {"\"c\", 2]", "\"c\", 65536]", {"'grid[2]'", "1 to 65535", "found 65536"}},
      {"\"c\", 2]", "-3, 2]", {"'grid[1]'", "found -3"}},
      {"\"4*ROWS\"", "-4", {"'shared_bytes'", "0 to 232448", "found -4"}},
      {"\"4*ROWS\"", "232449", {"'shared_bytes'", "0 to 232448", "found 232449"}},
      {"\"i32 c\"", "\"i32 2147483648\"", {"'arguments[1]'", "32 bits"}},
      {"\"name\": \"outside_a\"", "\"name\": \"reference\"", {"'name'", "found reference"}},
      {"\"name\": \"outside_a\"", "\"name\": \"sized\"", {"'name'", "found sized"}},
  };
  for (const Case& c : cases) {
    const auto m = parse_manifest(with(c.part, c.by), "folder/a.json");
    ASSERT_FALSE(m.ok()) << c.part << " -> " << c.by;
    EXPECT_EQ(m.error().kind, ErrorKind::kInvalid);
    EXPECT_EQ(m.error().file, "folder/a.json");
    for (const char* part : c.says)
      EXPECT_NE(m.error().text().find(part), std::string::npos) << part << " in " << m.error().text();
  }
}

TEST(OutsideManifest, TheSourceHasToFit) {
  auto m = parse_manifest(with("{\"cuda\": \"a.cu\"}", "{\"ptx\": \"a.ptx\"}"), "a.json");
  ASSERT_FALSE(m.ok()) << "tunables are macros of a source";
  m = parse_manifest(R"({"name": "p", "version": 1, "source": {"ptx": "p"}, "chips": ["sm_90"], "entry": "k",
    "pattern": "graph { input x: f32[n]; y = relu(x); output y }", "grid": [1], "threads": 32,
    "arguments": ["x", "i32 n", "y"]})",
                     "p.json");
  ASSERT_TRUE(m.ok()) << m.error().text();
  EXPECT_TRUE(check_source(*m, ".entry k2() .entry k (.param .u64 a, .param .u32 b, .param .u64 .ptr c)", "p").ok());
  const Status more = check_source(*m, ".entry k(.param .u64 a, .param .u32 b, .param .u64 c, .param .u64 d)", "p");
  ASSERT_FALSE(more.ok());
  for (const char* part : {"p: ", "4 of 8 4 8 8 bytes", "3 of 8 4 8 bytes", "\"null\""})
    EXPECT_NE(more.error().text().find(part), std::string::npos) << part << " in " << more.error().text();
  for (const char* none : {".entry kk(.param .u64 a)", ".entry k(.param .", ".entry k(.param .)", ".entry k(.param",
                           ".entry k(", ".entry k", ""})
    EXPECT_FALSE(check_source(*m, none, "p").ok()) << none;
  const Status other = check_source(*m, ".visible .entry first(.param .u64 a) { } .entry  second() { }", "p");
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().text().find("expected .entry k, found first, second"), std::string::npos)
      << other.error().text();
  m->form = Form::kSource;
  const Status none = check_source(*m, "extern \"C\" __global__ void mine(float* a) {}", "p");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().text().find("expected k, found mine"), std::string::npos) << none.error().text();
  m->form = Form::kCubin;
  EXPECT_FALSE(check_source(*m, ".entry k()", "p").ok());
  EXPECT_TRUE(check_source(*m,
                           "\x7f"
                           "ELF",
                           "p")
                  .ok());
}

TEST(OutsidePattern, IsFoundAtItsSizes) {
  const ir::Graph pattern =
      parsed("graph { input x: f32[n,c]; input w: f32[n,c]; a = sub(x, w); y = softmax(a) {axis=1}; output y }");
  const auto at = [&](const std::string& text) {
    const ir::Graph g = parsed(text);
    return match(pattern, {&g, std::vector<bool>(g.inputs.size(), false)});
  };
  const auto m = at("graph { input p: f32[3,7]; input q: f32[3,7]; t = sub(q, p); r = softmax(t); output r }");
  ASSERT_TRUE(m.ok()) << m.error().text();
  EXPECT_EQ(m->sizes.at("n"), 3);
  EXPECT_EQ(m->sizes.at("c"), 7);
  EXPECT_EQ(m->inputs, (std::vector<size_t>{1, 0})) << "the second is what is subtracted from";
  for (const char* other : {
           "graph { input p: f32[3,7]; input q: f32[3,7]; t = add(q, p); r = softmax(t); output r }",
           "graph { input p: f32[3,7]; input q: f32[3,7]; t = sub(q, p); r = softmax(t) {axis=0}; output r }",
           "graph { input p: f16[3,7]; input q: f16[3,7]; t = sub(q, p); r = softmax(t); output r }",
           "graph { input p: f32[3,7]; input q: f32[7]; t = sub(p, q); r = softmax(t); output r }",
           "graph { input p: f32[3,7]; input q: f32[3,1]; t = sub(p, q); r = softmax(t); output r }",
           "graph { input p: f32[3,7]; input q: f32[1,7]; t = sub(q, p); r = softmax(t); output r }",
           "graph { input p: f32[2,3,7]; input q: f32[2,3,7]; t = sub(q, p); r = softmax(t); output r }",
           "graph { input p: f32[3,7]; input q: f32[3,7]; t = sub(q, p); r = softmax(t); output r; output t }",
           "graph { input p: f32[3,7]; input q: f32[3,7]; t = sub(q, p); r = softmax(t); s = relu(r); output s }",
       })
    EXPECT_FALSE(at(other).ok()) << other;
}

// Sums and softmax of 16 bits are float32 between casts when the passes are through: a pattern of 16 bits is found
// there.
TEST(OutsidePattern, Of16BitsIsFoundInFloat32BetweenCasts) {
  const ir::Graph pattern =
      parsed("graph { input x: f16[n,c]; input w: f16[n,c]; a = sub(x, w); y = softmax(a) {axis=1}; output y }");
  const auto at = [&](const std::string& text) {
    const ir::Graph g = parsed(text);
    return match(pattern, {&g, std::vector<bool>(g.inputs.size(), false)});
  };
  const std::string inputs = "graph { input p: f16[3,7]; input q: f16[3,7]; ";
  for (const char* one : {
           "t = sub(q, p); r = softmax(t); output r }",
           "t = sub(q, p); u = cast(t) {to=1}; v = softmax(u); r = cast(v) {to=3}; output r }",
           "e = cast(q) {to=1}; f = cast(p) {to=1}; t = sub(e, f); v = softmax(t); r = cast(v) {to=3}; output r }",
       }) {
    const auto m = at(inputs + one);
    ASSERT_TRUE(m.ok()) << one << m.error().text();
    EXPECT_EQ(m->inputs, (std::vector<size_t>{1, 0}));
  }
  for (const std::string& other : {
           inputs + "t = sub(q, p); u = cast(t) {to=1}; v = softmax(u); output v }",
           inputs + "t = sub(q, p); u = cast(t) {to=1}; v = softmax(u); r = cast(v) {to=3}; output r; output u }",
           inputs + "t = sub(q, p); u = cast(t) {to=2}; v = softmax(u); r = cast(v) {to=3}; output r }",
           std::string("graph { input p: f32[3,7]; input q: f32[3,7]; t = sub(q, p); v = softmax(t); r = cast(v) "
                       "{to=3}; output r }"),
           std::string("graph { input p: bf16[3,7]; input q: bf16[3,7]; e = cast(q) {to=1}; f = cast(p) {to=1}; t = "
                       "sub(e, f); v = softmax(t); r = cast(v) {to=3}; output r }"),
       })
    EXPECT_FALSE(at(other).ok()) << other;
}

class OutsideFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "peri_outside_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  std::filesystem::path folder_;
};

TEST_F(OutsideFiles, ALaunchIsWhatTheManifestSays) {
  write("a.cu", "extern \"C\" __global__ void peri_a() {}");
  const auto added = add(write("a.json", with()));
  ASSERT_TRUE(added.ok()) << added.error().text();
  const Kernel& k = **added;
  EXPECT_EQ(find("outside_a"), &k);
  const ir::Graph g = parsed(
      "graph { input x: f16[9,48]; input w: f16[9,48]; input z: f16[24]; a = mul(x, w); y = softmax(a); output y; u = "
      "relu(z); output u }");
  const Problem p{&g, {false, true, false}};
  EXPECT_FALSE(k.offer(p, device::cpu_target(1)).ok());
  const auto offers = k.offer(p, gpu("sm_100a"));
  ASSERT_TRUE(offers.ok()) << offers.error().text();
  ASSERT_EQ(offers->size(), 1u);
  EXPECT_EQ((*offers)[0].config, "source=" + hash_of(k));
  const Target target = gpu();
  const auto launch_of = [&](const std::string& config) {
    auto made = k.instantiate(p, config, {.target = &target});
    EXPECT_TRUE(made.ok()) << made.error().text();
    return dynamic_cast<const cuda::LaunchInstance&>(**made).launches().at(0);
  };
  const cuda::KernelLaunch l = launch_of((*offers)[0].config);
  EXPECT_EQ(l.entry, "peri_a");
  EXPECT_TRUE(l.text.starts_with("#define ROWS 4\nextern"));
  EXPECT_EQ(l.blocks, 3);
  EXPECT_EQ(l.more_blocks[0], 24);
  EXPECT_EQ(l.more_blocks[1], 2);
  EXPECT_EQ(l.threads, 48);
  EXPECT_EQ(l.shared_bytes, 16);
  // w, i32 c, null, y, f32 0.5, x, i64 n*c, z, u
  EXPECT_EQ(l.order, (std::vector<int>{0, -1, -2, 1, -3, 2, -4, 3, 4}));
  EXPECT_EQ(l.sizes, (std::vector<int64_t>{24, 0, 0x3f000000, 216}));
  const std::pair<From, size_t> from[] = {
      {From::kInput, 1}, {From::kOutput, 0}, {From::kInput, 0}, {From::kInput, 2}, {From::kOutput, 1}};
  for (size_t n = 0; n < std::size(from); ++n) {
    EXPECT_EQ(l.arguments.at(n).from, from[n].first) << n;
    EXPECT_EQ(l.arguments.at(n).index, from[n].second) << n;
  }
  const cuda::KernelLaunch set = launch_of((*offers)[0].config + " ROWS=2");
  EXPECT_EQ(set.blocks, 5);
  EXPECT_TRUE(set.text.starts_with("#define ROWS 2\n"));
  EXPECT_FALSE(k.instantiate(p, (*offers)[0].config + " ROWS=3", {.target = &target}).ok()) << "not in its list";
}

TEST_F(OutsideFiles, SizesAndChipsAreHeldTo) {
  write("a.cu", "peri_a");
  const auto added = add(write("b.json", with("outside_a", "outside_b")));
  ASSERT_TRUE(added.ok()) << added.error().text();
  for (const auto& [c, taken] : {std::pair{16, true}, {96, true}, {8, false}, {20, false}, {104, false}}) {
    const std::string wide = std::to_string(2 * c);
    const ir::Graph g =
        parsed("graph { input x: f16[9," + wide + "]; input w: f16[9," + wide + "]; input z: f16[" + std::to_string(c) +
               "]; a = mul(x, w); y = softmax(a); output y; u = relu(z); output u }");
    const auto offers = (*added)->offer({&g, {false, false, false}}, gpu());
    EXPECT_EQ(offers.ok(), taken) << c;
    if (!taken) EXPECT_NE(offers.error().text().find("multiples of 8 from 16 to 96"), std::string::npos);
  }
  const ir::Graph odd = parsed(
      "graph { input x: f16[9,50]; input w: f16[9,50]; input z: f16[24]; a = mul(x, w); y = softmax(a); output y; u = "
      "relu(z); output u }");
  EXPECT_FALSE((*added)->offer({&odd, {false, false, false}}, gpu()).ok()) << "50 is not 2*c";
  for (const std::string_view sample : (*added)->samples) {
    const ir::Graph g = parsed(std::string(sample));
    EXPECT_TRUE((*added)->offer({&g, {false, false, false}}, gpu()).ok()) << sample;
  }
  EXPECT_GE((*added)->samples.size(), 3u);
}

// A launch that no device takes, or a size that its parameter would cut off.
TEST_F(OutsideFiles, WhatDoesNotFitIsRefused) {
  write("a.cu", "peri_a");
  struct Case {
    const char *name, *part, *by, *says;
  };
  for (const Case& c : {Case{"wide", "\"i32 c\"", "\"i32 c*1000000000\"", "an argument of 32 bits"},
                        {"threads", "\"2*c\", \"shared", "\"100*c\", \"shared", "the number of threads"},
                        {"shared", "4*ROWS", "1000000*ROWS", "the shared memory"},
                        {"grid", "\"c\", 2]", "\"10000*c\", 2]", "the grid"}}) {
    std::string text = with(c.part, c.by);
    text.replace(text.find("outside_a"), 9, std::string("outside_") + c.name);
    const auto added = add(write(std::string(c.name) + ".json", text));
    ASSERT_TRUE(added.ok()) << added.error().text();
    const ir::Graph g = parsed(
        "graph { input x: f16[9,48]; input w: f16[9,48]; input z: f16[24]; a = mul(x, w); y = softmax(a); output y; u "
        "= relu(z); output u }");
    const auto offers = (*added)->offer({&g, {false, false, false}}, gpu());
    ASSERT_FALSE(offers.ok()) << c.name;
    EXPECT_NE(offers.error().text().find(c.says), std::string::npos) << offers.error().text();
  }
}

TEST_F(OutsideFiles, TheSameFilesStayAndOthersOfTheNameAreRefused) {
  write("a.cu", "peri_a");
  const std::string path = write("c.json", with("outside_a", "outside_c"));
  const auto first = add(path);
  ASSERT_TRUE(first.ok()) << first.error().text();
  const auto again = add(path);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *first);
  write("a.cu", "peri_a of others");
  const auto other = add(path);
  EXPECT_FALSE(other.ok());
  const auto taken = add(write("d.json", with("outside_a", "cuda_copy")));
  ASSERT_FALSE(taken.ok());
  EXPECT_NE(taken.error().text().find("another kernel has this name"), std::string::npos) << taken.error().text();
}

TEST_F(OutsideFiles, ASourceThatIsNotThereOrElsewhereIsRefused) {
  const auto missing = add(write("e.json", with("outside_a", "outside_e")));
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().text().find("a.cu"), std::string::npos) << missing.error().text();
  const auto out = add(write("f.json", with("\"a.cu\"", "\"../a.cu\"")));
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().kind, ErrorKind::kInvalid) << out.error().text();
}

TEST_F(OutsideFiles, AnEngineOfAnotherSourceIsToldWhichIsHere) {
  write("a.cu", "peri_a");
  const auto added = add(write("g.json", with("outside_a", "outside_g")));
  ASSERT_TRUE(added.ok()) << added.error().text();
  const ir::Graph g = parsed(std::string((*added)->samples[0]));
  const Target target = gpu();
  for (const char* config : {"", "source=0123456789abcdef", "source=0123456789abcdef0 ROWS=4"}) {
    const auto made = (*added)->instantiate({&g, {false, false, false}}, config, {.target = &target});
    ASSERT_FALSE(made.ok()) << config;
    for (const std::string& part : {std::string("g.json"), "source=" + hash_of(**added), std::string("--kernel FILE")})
      EXPECT_NE(made.error().text().find(part), std::string::npos) << part << " in " << made.error().text();
  }
}

// The example of docs/outside-kernels.md: Triton's own parameters are there, and the kernel takes what it says.
TEST(OutsideExample, TritonsSoftmaxIsTaken) {
  const auto added = add(std::string(tests::kSourceDir) + "/examples/triton/softmax_f16.json");
  ASSERT_TRUE(added.ok()) << added.error().text();
  const Target target = gpu();
  const ir::Graph g = parsed("graph { input x: f16[50,1000]; y = softmax(x) {axis=-1}; output y }");
  const auto offers = (*added)->offer({&g, {false}}, target);
  ASSERT_TRUE(offers.ok()) << offers.error().text();
  const auto made = (*added)->instantiate({&g, {false}}, (*offers)[0].config, {.target = &target});
  ASSERT_TRUE(made.ok()) << made.error().text();
  const cuda::KernelLaunch& l = dynamic_cast<const cuda::LaunchInstance&>(**made).launches().at(0);
  EXPECT_EQ(l.form, Form::kPtx);
  EXPECT_EQ(l.blocks, 50);
  EXPECT_EQ(l.threads, 128);
  EXPECT_EQ(l.shared_bytes, 16);
  EXPECT_EQ(l.order, (std::vector<int>{0, 1, -1, -2, -3}));
  EXPECT_EQ(l.sizes, (std::vector<int64_t>{1000, 0, 0}));
  EXPECT_NE(l.text.find(".reqntid 128\n"), std::string::npos) << "the manifest's threads are the kernel's";
  for (const char* other : {"graph { input x: f16[50,1025]; y = softmax(x); output y }",
                            "graph { input x: f32[50,100]; y = softmax(x); output y }"}) {
    const ir::Graph o = parsed(other);
    EXPECT_FALSE((*added)->offer({&o, {false}}, target).ok()) << other;
  }
}

}  // namespace
}  // namespace peri::kernels::outside
