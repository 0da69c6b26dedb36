// A repository of fakes: ensembles and the models they are made of come and go in every order; nothing holds on to what
// was unloaded.
#include "serve/repository/repository.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <thread>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "tests/serve/fake_servable.hpp"

namespace peri::serve {
namespace {

namespace fs = std::filesystem;

std::string ensemble_of(const std::vector<std::string>& models, const char* in = "x", const char* out = "y") {
  std::string text = format(
      "platform: \"ensemble\" max_batch_size: 4\n"
      "input [{ name: \"%s\" data_type: TYPE_FP32 dims: [-1] }]\noutput [{ name: \"%s\" data_type: TYPE_FP32 dims: "
      "[-1] }]\n"
      "ensemble_scheduling { step [",
      in, out);
  for (size_t k = 0; k < models.size(); ++k)
    text += format(
        "%s{ model_name: \"%s\" model_version: -1 input_map { key: \"x\" value: \"%s\" } output_map { key: \"y\" "
        "value: \"%s\" } }",
        k ? ", " : "", models[k].c_str(), k ? format("t%zu", k).c_str() : in,
        k + 1 < models.size() ? format("t%zu", k + 1).c_str() : out);
  return text + "] }\n";
}

class Repositories : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ("peri_repository_test_" + std::to_string(getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override {
    repository_.reset();
    fs::remove_all(root_);
  }
  void put(const std::string& name, const std::string& config = "max_batch_size: 4\n") {
    fs::create_directories(root_ / name / "1");
    if (config.find("ensemble") == std::string::npos)
      ASSERT_TRUE(write_file_atomic((root_ / name / "1" / "model.engine").string(), "x").ok());
    ASSERT_TRUE(write_file_atomic((root_ / name / "config.pbtxt").string(), config).ok());
  }
  void open(Control control, int64_t poll_ms = 20) {
    RepositoryOptions options;
    options.root = root_.string();
    options.control = control;
    options.poll_ms = poll_ms;
    options.log = [this](const LogLine& line) {
      const std::lock_guard<std::mutex> lock(mutex_);
      said_.push_back(line.text);
    };
    repository_ = std::make_unique<Repository>(options, [this](const LoadOrder&, const auto&) -> Result<Loaded> {
      Loaded out;
      fakes_.push_back(out.servable = std::make_shared<FakeServable>(1));
      out.batch_sizes = {1, 2, 3, 4};
      return out;
    });
    ASSERT_TRUE(repository_->start().ok());
    repository_->wait_started();
  }
  ServedPtr find(const std::string& name) const {
    int status = 0;
    std::string why;
    return repository_->find(name, "", &status, &why);
  }
  template <class Condition>
  static bool soon(Condition condition) {
    const int64_t start = now_ns();
    while (!condition() && seconds_since(start) < 30) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return condition();
  }
  // What became of a load or an unload.
  std::string load(const std::string& name) {
    std::promise<std::string> said;
    repository_->load(name, {}, [&](Status s) { said.set_value(s.ok() ? "" : s.error().text()); });
    return said.get_future().get();
  }
  void unload(const std::string& name, bool dependents) {
    std::promise<bool> said;
    repository_->unload(name, dependents, [&](Status s) { said.set_value(s.ok()); });
    EXPECT_TRUE(said.get_future().get());
  }
  std::vector<std::string> served() const {
    std::vector<std::string> out;
    for (const ServedPtr& s : repository_->all()) out.push_back(s->model->name());
    return out;
  }
  // How many lines of the log hold these words.
  size_t said(const std::string& words) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<size_t>(std::ranges::count_if(said_, [&](auto& s) { return s.find(words) != s.npos; }));
  }
  fs::path root_;
  std::mutex mutex_;  // of said_
  std::vector<std::string> said_;
  std::vector<std::weak_ptr<runtime::Servable>> fakes_;  // as they were loaded
  std::unique_ptr<Repository> repository_;
};
using Names = std::vector<std::string>;

TEST(Paths, BelowARepositoryAreNotTold) {
  EXPECT_EQ(without_root("repo/bad/1/model.onnx: damaged", "repo"), "model.onnx: damaged");
  EXPECT_EQ(without_root("of 'repo/bad/1/w.bin' and /tmp/x/y.onnx, repo/a", "repo/"), "of 'w.bin' and y.onnx, a");
  EXPECT_EQ(without_root("my repos/a has f32/f16", "repo"), "my repos/a has f32/f16");
  EXPECT_EQ(without_root("/srv/models/m/1: none", "/srv/models"), "1: none");
  EXPECT_EQ(without_root("version 1: /srv/my repo/m/1/x.onnx: damaged", "/srv/my repo"), "version 1: x.onnx: damaged");
}

TEST_F(Repositories, EnsemblesOfEnsemblesComeInAnyOrder) {
  put("a", ensemble_of({"b", "z"}));
  put("b", ensemble_of({"c"}));
  put("c", ensemble_of({"z", "z"}));
  put("z");
  open(Control::kNone);
  EXPECT_EQ(served(), (Names{"a", "b", "c", "z"}));
  EXPECT_TRUE(repository_->ready());
}

TEST_F(Repositories, AnEnsembleThatWaitedForItsModelComesWithIt) {
  put("a", ensemble_of({"b"}));
  put("b", ensemble_of({"m"}));
  open(Control::kPoll);
  EXPECT_EQ(served(), Names{});
  put("m");
  EXPECT_TRUE(soon([&] { return served() == Names{"a", "b", "m"}; }));
  EXPECT_TRUE(soon([&] { return repository_->ready(); }));
}

TEST_F(Repositories, AnEnsembleBringsItsModels) {
  put("a", ensemble_of({"b", "m"}));
  put("b", ensemble_of({"n"}));
  put("c", ensemble_of({"n"}));
  for (const char* name : {"m", "n"}) put(name);
  open(Control::kExplicit);
  EXPECT_EQ(load("a"), "");
  EXPECT_EQ(served(), (Names{"a", "b", "m", "n"}));
  unload("a", false);
  EXPECT_EQ(served(), (Names{"b", "m", "n"}));
  EXPECT_EQ(load("a"), "");
  EXPECT_EQ(load("c"), "");
  EXPECT_EQ(load("m"), "");  // asked for by its name now
  unload("a", true);
  EXPECT_EQ(served(), (Names{"c", "m", "n"})) << "n is the other ensemble's too";
  unload("c", true);
  EXPECT_EQ(served(), Names{"m"});
}

TEST_F(Repositories, EnsemblesInACircleEnd) {
  put("a", ensemble_of({"b"}));
  put("b", ensemble_of({"a"}));
  open(Control::kExplicit);
  EXPECT_NE(load("a").find("go in a circle"), std::string::npos);
  EXPECT_EQ(served(), Names{});
}

TEST_F(Repositories, AModelIsNotReplacedByAnEnsembleThatLeadsBackToIt) {
  put("a", ensemble_of({"m"}));
  put("b", ensemble_of({"a"}));
  put("m");
  open(Control::kExplicit);
  EXPECT_EQ(load("b"), "");
  put("m", ensemble_of({"b"}));
  EXPECT_NE(load("m").find("step 'b' leads back to the ensemble itself"), std::string::npos);
  EXPECT_EQ(served(), (Names{"a", "b", "m"}));
  for (const ServedPtr& s : repository_->all()) EXPECT_EQ(s->model->servable().trouble(), "");
}

TEST_F(Repositories, AnEnsembleWhoseRequestsFailIsLetGo) {
  put("a", ensemble_of({"m", "m"}));
  put("m");
  open(Control::kExplicit);
  EXPECT_EQ(load("a"), "");
  ServedPtr ensemble = find("a");
  ASSERT_TRUE(ensemble);
  for (const float v : {-1.f, 1.f}) {
    auto call = std::make_shared<Call>();
    call->inputs = {Tensor::of_f32({1, 1}, std::vector<float>{v})};
    std::promise<Answer> said;
    call->done = [&](Answer a) { said.set_value(std::move(a)); };
    ensemble->model->submit(call);
    EXPECT_EQ(said.get_future().get().error.has_value(), v < 0);
  }
  const std::weak_ptr<const Served> part = find("m"), whole = ensemble;
  ensemble.reset();
  unload("a", true);
  EXPECT_TRUE(soon([&] { return whole.expired() && part.expired(); })) << "a request that failed holds what it ran on";
}

TEST_F(Repositories, ACancelledRequestOfAnEnsembleHoldsNothing) {
  put("a", ensemble_of({"m"}));
  put("m");
  open(Control::kExplicit);
  EXPECT_EQ(load("a"), "");
  ServedPtr ensemble = find("a"), part = find("m");
  auto& fake = dynamic_cast<FakeServable&>(part->model->servable());
  fake.close();
  std::vector<CallPtr> calls;
  std::atomic<int> answers = 0, cancelled = 0;
  for (int k = 0; k < 8; ++k) {
    calls.push_back(std::make_shared<Call>());
    calls.back()->inputs = {Tensor::of_f32({1, 1}, std::vector<float>{1})};
    calls.back()->done = [&](Answer a) {
      cancelled += a.error && a.error->kind == ErrorKind::kCancelled;
      ++answers;
    };
    ensemble->model->submit(calls.back());
  }
  ASSERT_TRUE(soon([&] { return fake.entered > 0; }));
  for (const CallPtr& c : calls) ensemble->model->cancel(c);
  EXPECT_TRUE(soon([&] { return answers == 8; }));
  EXPECT_EQ(cancelled, 8);
  fake.open();
  calls.clear();
  const std::weak_ptr<const Served> weak_part = part, whole = ensemble;
  ensemble.reset();
  part.reset();
  unload("a", true);
  EXPECT_TRUE(soon([&] { return whole.expired() && weak_part.expired(); }));
}

// A model's own thread lets a request go behind its answer, and with it what the request holds.
TEST_F(Repositories, EndsWhileWhatWasAnsweredIsLetGo) {
  put("m");
  open(Control::kExplicit);
  EXPECT_EQ(load("m"), "");
  std::atomic<bool> answered = false;
  auto call = std::make_shared<Call>();
  call->inputs = {Tensor::of_f32({1, 1}, std::vector<float>{1})};
  call->done = [&answered, served = find("m")](Answer) {
    answered = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  };
  find("m")->model->submit(std::exchange(call, nullptr));
  ASSERT_TRUE(soon([&] { return answered.load(); }));
  repository_.reset();
  EXPECT_TRUE(soon([&] { return fakes_[0].expired(); })) << "the model has ended in order";
}

// Each poll finds that it is gone; the log has it once, and when it is back.
TEST_F(Repositories, AFolderThatIsGoneIsToldOnce) {
  put("m");
  open(Control::kPoll, 5);
  const fs::path away = root_.string() + ".away";
  const std::string gone = root_.string() + ": cannot list the folder";
  for (size_t times = 1; times <= 2; ++times) {
    fs::rename(root_, away);
    EXPECT_TRUE(soon([&] { return said(gone) == times; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(said(gone), times);
    fs::rename(away, root_);
    EXPECT_TRUE(soon([&] { return said("can be read again") == times; }));
  }
  EXPECT_TRUE(find("m")) << "it was served all the time";
}

TEST_F(Repositories, LooksNoMoreOftenWhileAVersionGoes) {
  put("m");
  open(Control::kPoll, 3600'000);
  const ServedPtr held = find("m");  // as a request under way does
  ASSERT_TRUE(held);
  unload("m", false);
  put("n");
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  EXPECT_EQ(served(), Names{}) << "a folder that is being written must not be read before its time";
}

TEST_F(Repositories, SaysWhatChanged) {
  put("m");
  std::atomic<int> told = 0;
  RepositoryOptions options;
  options.root = root_.string();
  options.control = Control::kExplicit;
  options.changed = [&] { ++told; };
  repository_ = std::make_unique<Repository>(options, [](const LoadOrder& o, const auto&) -> Result<Loaded> {
    if (o.name == "m") return refused("not today");
    return internal_error("unknown");
  });
  ASSERT_TRUE(repository_->start().ok());
  repository_->wait_started();
  EXPECT_TRUE(soon([&] { return told >= 1; }));
  int before = told;
  EXPECT_NE(load("m"), "");
  EXPECT_GT(told, before);
  EXPECT_FALSE(repository_->ready());
  before = told;
  unload("m", false);
  EXPECT_GT(told, before);
  EXPECT_TRUE(repository_->ready());
}

}  // namespace
}  // namespace peri::serve
