// A server keeps the engines it builds, and a restart with another flag is served another engine: every flag of a build
// is in the engine's terms, or stands here among those that change none.
#include "build/kept_engine.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.hpp"
#include "cli/console/arguments.hpp"
#include "cli/console/model.hpp"
#include "kernels/outside/outside.hpp"
#include "plan/lock_file.hpp"
#include "tests/places.hpp"

namespace peri::cli {
namespace {

const std::string kModel = std::string(tests::kSourceDir) + "/models/digits_cnn.onnx";

// A value of each flag that is not what holds without it.
const std::map<std::string, std::string> kOther = {
    {"--dims", "batch=3"},
    {"--shapes", "image:5x1x8x8"},
    {"--dtype", "bf16"},
    {"--threads", "7"},
    {"--backend", "cpu"},
    {"--device", "null:0"},
    {"--budget", "12"},
    {"--no-tune", ""},
    {"--no-verify", ""},
    {"--opt-shapes", "image:6x1x8x8"},
    {"--min-shapes", "image:1x1x8x8"},
    {"--max-shapes", "image:9x1x8x8"},
    {"--fix", "n=3"},
    {"--max-iterations", "77"},
    {"--strict-placement", ""},
    {"--io-dtype", "f16"},
    {"--kernel", "examples/triton/softmax_f16.json"},
    {"--provider", "onednn"},
    {"--settings", "3"},
    {"--disable-pass", "fold_constants"},
};
// These change no engine, or keep none.
const std::map<std::string, std::string> kSame = {
    {"--retune", "the same engine, made anew"}, {"--no-cache", "none is kept"}, {"--dump-passes", "none is kept"}};

const Command& command() {
  static const Command own{.name = "terms",
                           .summary = "for a test",
                           .positional = "",
                           .min_positional = 0,
                           .max_positional = 0,
                           .flags = build_flags()};
  return own;
}

build::Request request_of(const std::vector<std::string>& words) {
  std::vector<std::string> own = words;
  std::vector<char*> raw;
  for (std::string& w : own) raw.push_back(w.data());
  auto arguments = parse_arguments(command(), raw);
  EXPECT_TRUE(arguments.ok()) << arguments.error().text();
  auto request = build_request(*arguments, kModel, nullptr);
  EXPECT_TRUE(request.ok()) << request.error().text();
  return *request;
}

std::string terms_of(const std::vector<std::string>& words) {
  const auto terms = build::engine_terms(request_of(words));
  EXPECT_TRUE(terms.ok()) << terms.error().text();
  return terms.ok() ? *terms : "";
}

TEST(KeptEngine, HangsOnEveryFlagOfABuild) {
  std::map<std::string, std::string> seen = {{terms_of({}), "no flag"}};
  for (const Flag& f : build_flags()) {
    const std::string name(f.name);
    if (kSame.contains(name)) continue;
    const auto other = kOther.find(name);
    ASSERT_NE(other, kOther.end()) << name << ": say here whether an engine hangs on it";
    if (name == "--kernel") continue;  // below, since what was added stays
    const std::string terms = terms_of(f.value.empty() ? std::vector{name} : std::vector{name, other->second});
    EXPECT_TRUE(seen.emplace(terms, name).second) << name << " has the terms of " << seen[terms];
  }
  EXPECT_EQ(terms_of({}), terms_of({})) << "the same is the same";
  EXPECT_EQ(terms_of({"--retune"}), terms_of({}));
}

TEST(KeptEngine, HangsOnTheKernelsFromOutsideAndTheEnvironment) {
  const std::string before = terms_of({});
  setenv("PERI_EVERY_SPLIT", "1", 1);
  EXPECT_NE(terms_of({}), before);
  unsetenv("PERI_EVERY_SPLIT");
  EXPECT_EQ(terms_of({}), before);
  const auto added = kernels::outside::add(std::string(tests::kSourceDir) + "/" + kOther.at("--kernel"));
  ASSERT_TRUE(added.ok()) << added.error().text();
  EXPECT_NE(terms_of({}), before);
}

TEST(KeptEngine, HasAPlaceUnlessTheBuildItselfIsWanted) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("peri_kept_" + std::to_string(getpid()))).string();
  build::Request r = request_of({});
  r.cache_folder = folder;
  const std::string kept = build::kept_engine(r, 1).value();
  EXPECT_TRUE(kept.starts_with(folder + "/serve/")) << kept;
  EXPECT_NE(build::kept_engine(r, 2).value(), kept) << "other files of the model";
  r.fixed["n"] = "3";
  EXPECT_NE(build::kept_engine(r, 1).value(), kept);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--no-cache"}, {"--dump-passes", std::filesystem::temp_directory_path().string()}}) {
    build::Request none = request_of(words);
    none.cache_folder = folder;
    EXPECT_EQ(build::kept_engine(none, 1).value(), "") << words[0];
  }
  setenv("PERI_ENGINE_CACHE_MIB", "0", 1);
  EXPECT_EQ(build::kept_engine(r, 1).value(), "") << "a limit of nothing";
  unsetenv("PERI_ENGINE_CACHE_MIB");
  EXPECT_NE(build::kept_engine(r, 1).value(), "");
  r.cache_folder = "";
  EXPECT_EQ(build::kept_engine(r, 1).value(), "");
  std::filesystem::remove_all(folder);
}

// By what it says, wherever it lies.
TEST(KeptEngine, HangsOnWhatALockSays) {
  const std::string lock =
      (std::filesystem::temp_directory_path() / ("peri_kept_" + std::to_string(getpid()) + ".lock")).string();
  build::Request r = request_of({});
  r.locked_path = lock;
  const auto terms_with = [&](const std::string& builder) {
    plan::Lock l;
    l.builder = builder;
    EXPECT_TRUE(write_named_file(lock, plan::lock_text(l)).ok());
    const auto terms = build::engine_terms(r);
    EXPECT_TRUE(terms.ok()) << terms.error().text();
    return terms.ok() ? *terms : "";
  };
  const std::string one = terms_with("one");
  EXPECT_NE(one, terms_of({}));
  EXPECT_NE(terms_with("two"), one);
  EXPECT_EQ(terms_with("one"), one);
  std::filesystem::remove(lock);
}

}  // namespace
}  // namespace peri::cli
