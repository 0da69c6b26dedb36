// An engine that was judged is not judged again, by the same judge, on the same terms; any other is, and so is one of
// which the cache says what cannot be.
#include "build/known_verdict.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "exec/entry.hpp"
#include "judge/kept.hpp"

namespace peri::build {
namespace {

compile::Imported model(const std::string& last = "relu", float weight = 0.5f) {
  compile::Imported m;
  auto g = ir::parse_graph(
      "graph { input x: f32[rows,6]; const w: f32[6,4] = data(\"w\", 0000000000000001); p = matmul(x, w); y = " + last +
          "(p); output y }",
      [&](std::string_view, uint64_t) {
        std::vector<float> values(24);
        for (size_t k = 0; k < values.size(); ++k) values[k] = weight * static_cast<float>(k % 5) - 1;
        return std::optional(Tensor::of_f32({6, 4}, values));
      });
  EXPECT_TRUE(g.ok() && g->sort().ok() && ops::infer_graph(*g).ok());
  m.graph = std::move(*g);
  return m;
}

class KnownVerdict : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / ("peri_known_" + std::to_string(getpid()))).string();
    std::filesystem::remove_all(folder_);
    static const std::vector<const runtime::Executor*> kTable = exec::table();
    o_.executors = kTable;
    o_.compile.model = "known";
    o_.compile.dims = {{"rows", 20}};
    o_.compile.tune.measure = o_.compile.tune.verify = false;
    o_.compile.tune.cache_path = folder_;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  judge::EngineVerdict verdict_of(const Options& o, compile::Imported m) {
    auto built = build_engine(o, std::move(m));
    EXPECT_TRUE(built.ok()) << built.error().text();
    if (!built.ok()) return {};
    notes_ = built->compiled.notes;
    return std::move(built->verdict);
  }
  judge::EngineVerdict verdict() { return verdict_of(o_, model()); }
  bool noted(const std::string& words) const {
    for (const std::string& note : notes_)
      if (note.find(words) != std::string::npos) return true;
    return false;
  }

  std::string folder_;
  Options o_;
  std::vector<std::string> notes_;
};

TEST_F(KnownVerdict, TheSameEngineIsNotJudgedAgain) {
  const judge::EngineVerdict first = verdict();
  ASSERT_EQ(first.sizes.size(), 3u);
  EXPECT_FALSE(first.earlier);
  EXPECT_GT(first.since, 0);
  const judge::EngineVerdict again = verdict();
  EXPECT_TRUE(again.earlier);
  EXPECT_EQ(again.since, first.since);
  EXPECT_EQ(again.seconds, first.seconds) << "what it took then";
  ASSERT_EQ(again.sizes.size(), 3u);
  for (size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(again.sizes[k].sizes, first.sizes[k].sizes);
    EXPECT_EQ(again.sizes[k].steps_judged, first.sizes[k].steps_judged);
    EXPECT_EQ(again.sizes[k].whole, first.sizes[k].whole);
  }
  EXPECT_TRUE(notes_.empty()) << notes_[0];
}

TEST_F(KnownVerdict, AnyOtherIs) {
  verdict();
  EXPECT_FALSE(verdict_of(o_, model("sigmoid")).earlier) << "another operator";
  EXPECT_FALSE(verdict_of(o_, model("relu", 0.25f)).earlier) << "another weight";
  Options other = o_;
  other.compile.dims = {{"rows", 24}};
  EXPECT_FALSE(verdict_of(other, model()).earlier) << "another size";
  other = o_;
  other.compile.min_dims = {{"rows", 4}};
  EXPECT_FALSE(verdict_of(other, model()).earlier) << "other sizes to judge";
  other = o_;
  other.compile.tune.threads = 2;
  EXPECT_FALSE(verdict_of(other, model()).earlier) << "more threads";
  other = o_;
  other.max_iterations = 100;
  EXPECT_FALSE(verdict_of(other, model()).earlier) << "loops that end sooner";
  other = o_;
  other.compile.tune.cache_path = "";
  EXPECT_FALSE(verdict_of(other, model()).earlier) << "without a cache";
  EXPECT_TRUE(verdict().earlier);
}

TEST_F(KnownVerdict, AskedForItIsJudgedAgain) {
  verdict();
  Options renew = o_;
  renew.compile.tune.retune = true;
  EXPECT_FALSE(verdict_of(renew, model()).earlier);
  EXPECT_TRUE(verdict().earlier) << "and kept";
}

TEST_F(KnownVerdict, AnInterruptedJudgeIsNotKept) {
  Options stopped = o_;
  bool stop = false;
  int64_t told = 0;
  stopped.compile.tune.stop = [&] { return stop; };
  stopped.compile.progress = [&](size_t, size_t, const std::string& what) {
    stop = stop || (what.starts_with("judge the engine") && ++told == 2);
  };
  const judge::EngineVerdict half = verdict_of(stopped, model());
  ASSERT_TRUE(stop);
  EXPECT_FALSE(half.incomplete.empty());
  EXPECT_FALSE(half.lasting);
  EXPECT_FALSE(verdict().earlier);
  EXPECT_TRUE(verdict().earlier);
}

TEST_F(KnownVerdict, ADamagedOneIsToldAndFoundAnew) {
  verdict();
  const std::string file = folder_ + "/timings.sqlite";
  std::string bytes = read_file(file, 1 << 20).value();
  const size_t at = bytes.find("\"same_bits\":true");
  ASSERT_NE(at, std::string::npos);
  const size_t steps = bytes.find("\"steps_judged\":");
  ASSERT_NE(steps, std::string::npos);
  bytes[steps + 15] = '9';
  ASSERT_TRUE(write_file_atomic(file, bytes).ok());
  EXPECT_FALSE(verdict().earlier);
  EXPECT_TRUE(noted("damaged"));
  EXPECT_TRUE(verdict().earlier) << "replaced";
  EXPECT_FALSE(noted("damaged"));
}

// Under its own checksum, and still not of this engine.
TEST_F(KnownVerdict, SizesThatAreNotJudgedAreNonsense) {
  const judge::EngineVerdict right = verdict();
  const auto compilation = compile::Compilation::start(o_.compile, model());
  ASSERT_TRUE(compilation.ok());
  const auto compiled = (*compilation)->lower();
  ASSERT_TRUE(compiled.ok());
  const auto found_after = [&](const judge::EngineVerdict& kept) {
    KnownVerdicts known(**compilation, 11, 10000);
    known.find(*compiled);
    known.keep(kept);
    const bool found = known.find(*compiled).has_value();
    EXPECT_EQ(found, known.trouble().empty()) << known.trouble();
    return found;
  };
  judge::EngineVerdict other = right;
  EXPECT_TRUE(found_after(right));
  other.sizes[1].sizes = {{"rows", 3}};
  EXPECT_FALSE(found_after(other));
  other = right;
  std::swap(other.sizes[0], other.sizes[1]);
  EXPECT_FALSE(found_after(other));
  other = right;
  other.sizes.push_back(right.sizes[2]);
  EXPECT_FALSE(found_after(other));
  other = right;
  other.sizes.pop_back();
  EXPECT_FALSE(found_after(other)) << "nothing says why one is missing";
  EXPECT_FALSE(verdict().earlier);
  EXPECT_TRUE(found_after(right));
  EXPECT_TRUE(verdict().earlier);
}

}  // namespace
}  // namespace peri::build
