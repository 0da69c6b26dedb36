// Sources become code of a named chip without a GPU; refusals hold the log; the cache gives back only what is whole.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "device/cuda/code_shelf.hpp"
#include "device/cuda/compiler.hpp"
#include "tests/device/cuda_fakes.hpp"
#include "tests/device/cuda_kernels.hpp"

namespace peri::device::cuda {
namespace {
using tests::Fakes;
using tests::Folder;
using tests::must;
namespace fs = std::filesystem;

Source source(std::string chip = "sm_90a") { return {"kernels of a test", tests::kKernels, std::move(chip)}; }

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// NVRTC of this machine; without one only the fake is tested.
class Nvrtc : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = Compiler::open("");
    if (!opened.ok()) GTEST_SKIP() << opened.error().text();
    compiler_ = *std::move(opened);
  }
  std::unique_ptr<Compiler> compiler_;
};

TEST_F(Nvrtc, CompilesForEachChip) {
  const std::vector<int> known = must(compiler_->chips());
  for (const char* chip : {"sm_80", "sm_90a", "sm_100a", "sm_120a"}) {
    SCOPED_TRACE(chip);
    const int number = std::atoi(chip + 3);
    if (std::find(known.begin(), known.end(), number) == known.end()) continue;  // an NVRTC before it
    const Code code = must(compiler_->compile(source(chip)));
    EXPECT_EQ(code.cubin.substr(1, 3), "ELF");
    EXPECT_NE(code.cubin.find("peri_scale"), std::string::npos);
    EXPECT_NE(code.log.find("registers"), std::string::npos) << code.log;
    EXPECT_FALSE(code.cached);
  }
  EXPECT_NE(std::find(known.begin(), known.end(), 90), known.end());
}

TEST_F(Nvrtc, RefusesWithTheLog) {
  const auto broken =
      compiler_->compile({"peri_broken", "extern \"C\" __global__ void peri_x() { nothing(); }", "sm_80"});
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().kind, ErrorKind::kRefused);
  EXPECT_EQ(broken.error().node, "peri_broken");
  EXPECT_NE(broken.error().found.find("nothing"), std::string::npos) << broken.error().text();
  const auto option = compiler_->compile({"option", "", "sm_80", {"--no-such-option"}});
  EXPECT_EQ(option.error().kind, ErrorKind::kRefused);
  const auto header = compiler_->compile({"header", "#include \"cuda_fp16.h\"\n", "sm_80"});
  EXPECT_NE(header.error().found.find("cuda_fp16.h"), std::string::npos) << "no header of the toolkit is found";
}

TEST_F(Nvrtc, HeadersAndOptionsAreTaken) {
  Source s{"with a header",
           "#include \"peri/k.h\"\nextern \"C\" __global__ void peri_k(int* x) { *x = kValue + PERI_N; }", "sm_80"};
  EXPECT_FALSE(compiler_->compile(s).ok());
  s.headers = {{"peri/k.h", "constexpr int kValue = 3;\n"}};
  s.options = {"-DPERI_N=4"};
  EXPECT_TRUE(compiler_->compile(s).ok());
}

TEST_F(Nvrtc, TheSameSourceGivesTheSameCode) {
  EXPECT_EQ(must(compiler_->compile(source())).cubin, must(compiler_->compile(source())).cubin);
  EXPECT_EQ(compiler_->counts().compiled, 2);
}

TEST_F(Nvrtc, LeanTextsGiveTheSameCode) {
  Source lean = source();
  lean.lean = true;
  EXPECT_EQ(must(compiler_->compile(lean)).cubin, must(compiler_->compile(source())).cubin);
  EXPECT_EQ(compiler_->key(lean), compiler_->key(source())) << "so that either is taken for the other";
  Source runtime{"of the runtime", "extern \"C\" __global__ void peri_k(int* x) { *x = (int)cudaSuccess; }", "sm_80"};
  must(compiler_->compile(runtime));
  runtime.lean = true;
  EXPECT_EQ(compiler_->compile(runtime).ok(), compiler_->version() < (Version{12, 4, 0}));
}

class FakeNvrtc : public testing::Test {
 protected:
  void SetUp() override { fail(0, 0); }
  void TearDown() override { fail(0, 0); }
  void fail(long call, int code) { Fakes::control<void(long, int)>("nvrtc", "fake_nvrtc_fail")(call, code); }
  std::string folder() const { return (cache_.path / "cubin").string(); }
  fs::path entry(const Compiler& c) const { return folder() + "/" + c.key(source()) + ".cubin"; }
  const Fakes fakes_{{"libnvrtc.so.13", "nvrtc"}};
  const Folder cache_;
};

TEST_F(FakeNvrtc, TheCacheGivesBackTheSame) {
  const auto one = must(Compiler::open(folder()));
  const Code fresh = must(one->compile(source()));
  EXPECT_FALSE(fresh.cached);
  EXPECT_EQ(fresh.remark, "");
  const auto two = must(Compiler::open(folder()));
  const Code kept = must(two->compile(source()));
  EXPECT_TRUE(kept.cached);
  EXPECT_EQ(kept.cubin, fresh.cubin);
  EXPECT_EQ(kept.log, fresh.log);
  EXPECT_EQ(two->counts().compiled, 0);
  EXPECT_EQ(two->counts().cached, 1);
}

TEST_F(FakeNvrtc, AnOlderOneIsAskedForNothingThatItDoesNotKnow) {
  Source lean = source();
  lean.lean = true;
  const auto version = Fakes::control<void(int, int)>("nvrtc", "fake_nvrtc_version");
  const auto minimal = Fakes::control<long()>("nvrtc", "fake_nvrtc_minimal");
  version(12, 3);
  must(must(Compiler::open(""))->compile(lean));
  EXPECT_EQ(minimal(), 0);
  version(13, 0);
  must(must(Compiler::open(""))->compile(lean));
  EXPECT_EQ(minimal(), 1);
  must(must(Compiler::open(""))->compile(source()));
  EXPECT_EQ(minimal(), 1) << "it may name anything";
}

TEST_F(FakeNvrtc, WhatChangesTheCodeChangesTheKey) {
  const auto compiler = must(Compiler::open(""));
  std::vector<Source> sources(6, source());
  sources[1].text += " ";
  sources[2].chip = "sm_80";
  sources[3].options = {"-DX"};
  sources[4].headers = {{"a", "b"}};
  sources[5].headers = {{"ab", ""}};
  std::vector<std::string> keys;
  for (const Source& s : sources) keys.push_back(compiler->key(s));
  Fakes::control<void(int, int)>("nvrtc", "fake_nvrtc_version")(13, 1);
  keys.push_back(must(Compiler::open(""))->key(source()));
  Fakes::control<void(int, int)>("nvrtc", "fake_nvrtc_version")(13, 0);
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
}

TEST_F(FakeNvrtc, AChangedEntryIsIgnoredAndSaid) {
  const auto compiler = must(Compiler::open(folder()));
  const Code fresh = must(compiler->compile(source()));
  const std::string whole = text_of(entry(*compiler));
  ASSERT_GT(whole.size(), fresh.cubin.size());
  std::vector<std::string> broken = {"", whole.substr(0, 20), whole.substr(0, whole.size() - 1), whole + "x"};
  for (size_t at = 0; at < whole.size(); at += 7) {
    broken.push_back(whole);
    broken.back()[at] = static_cast<char>(broken.back()[at] ^ 1);
  }
  for (const std::string& text : broken) {
    write(entry(*compiler), text);
    const Code again = must(compiler->compile(source()));
    EXPECT_FALSE(again.cached);
    EXPECT_NE(again.remark.find("is ignored"), std::string::npos) << again.remark;
    EXPECT_EQ(again.cubin, fresh.cubin);
    EXPECT_EQ(text_of(entry(*compiler)), whole) << "and mended";
  }
}

TEST_F(FakeNvrtc, AnEntryThatOthersMayWriteIsNotBelieved) {
  const auto compiler = must(Compiler::open(folder()));
  must(compiler->compile(source()));
  fs::permissions(entry(*compiler), fs::perms::others_write, fs::perm_options::add);
  const Code again = must(compiler->compile(source()));
  EXPECT_FALSE(again.cached);
  EXPECT_NE(again.remark.find("others may write"), std::string::npos) << again.remark;
}

TEST_F(FakeNvrtc, TheLeastRecentlyUsedCodeGoesFirst) {
  const tests::Variable limit("PERI_CODE_CACHE_MIB", "1");
  Source fresh = source();
  fresh.options = {"-DFRESH"};
  const auto compiled = [&](const Source& s) { return must(must(Compiler::open(folder()))->compile(s)); };
  compiled(source());
  const fs::path used = entry(*must(Compiler::open(folder()))),
                 other = folder() + "/" + std::string(32, '0') + ".cubin";
  write(other, std::string(size_t{2} << 20, 'x'));
  for (const fs::path& p : {used, other}) fs::last_write_time(p, fs::last_write_time(p) - std::chrono::hours(48));
  EXPECT_TRUE(compiled(source()).cached);
  EXPECT_GT(fs::last_write_time(used), fs::last_write_time(other)) << "it was used now";
  EXPECT_TRUE(fs::exists(other)) << "nothing was written";
  EXPECT_FALSE(compiled(fresh).cached);
  EXPECT_FALSE(fs::exists(other));
  EXPECT_TRUE(compiled(source()).cached);
  const tests::Variable none("PERI_CODE_CACHE_MIB", "0");
  EXPECT_EQ(code_cache_folder(), "");
}

TEST_F(FakeNvrtc, AFolderThatCannotBeWrittenCostsOnlyTime) {
  write(cache_.path / "cubin", "a file in its place");
  const auto compiler = must(Compiler::open(folder()));
  const Code code = must(compiler->compile(source()));
  EXPECT_FALSE(code.cached);
  EXPECT_NE(code.remark, "");
}

TEST_F(FakeNvrtc, ChipsThatAreNone) {
  const auto compiler = must(Compiler::open(""));
  for (const char* chip : {"", "90", "sm_", "sm_9", "sm_90b", "compute_90", "sm_90 -G"}) {
    const auto refused = compiler->compile(source(chip));
    ASSERT_FALSE(refused.ok()) << chip;
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid) << refused.error().text();
  }
  const auto unknown = compiler->compile(source("sm_75"));
  EXPECT_EQ(unknown.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(unknown.error().text().find("sm_80, sm_90"), std::string::npos) << unknown.error().text();
}

TEST_F(FakeNvrtc, EveryCallMayFail) {
  const auto live = Fakes::control<long()>("nvrtc", "fake_nvrtc_live");
  const auto compiler = must(Compiler::open(folder()));
  for (long call = 1; call <= 8; ++call) {
    fail(call, 1);
    const auto done = compiler->compile(source());
    const bool only_the_log = call == 5 || call == 6;
    EXPECT_EQ(done.ok(), only_the_log) << call;
    if (!done.ok()) EXPECT_FALSE(done.error().text().empty());
    EXPECT_EQ(live(), 0) << call;
    fs::remove_all(folder());
  }
  fail(0, 0);
  EXPECT_FALSE(must(compiler->compile(source())).cached) << "a failure leaves no entry";
}

}  // namespace
}  // namespace peri::device::cuda
