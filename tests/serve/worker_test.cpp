// A worker process of its own: answers through shared memory, crashes, hangs, reloads; the blocks and places in that
// memory.
#include "serve/worker/workers.hpp"

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/rng.hpp"
#include "serve/worker/arena.hpp"
#include "serve/worker/tensor_block.hpp"
#include "tests/serve/hosted.hpp"

// In place of the C library's: counts what is sent to numbers of no process of ours.
static std::atomic<int> kills_of_none{0};
extern "C" int kill(pid_t pid, int signal) noexcept {
  siginfo_t child = {};
  if (pid > 0 && signal == SIGKILL && waitid(P_PID, static_cast<id_t>(pid), &child, WEXITED | WNOHANG | WNOWAIT) != 0)
    ++kills_of_none;
  return static_cast<int>(syscall(SYS_kill, pid, signal));
}

namespace peri::serve {
namespace {

// The number of one that has ended and is buried may be another program's.
TEST(Worker, NobodyIsKilledByANumberThatIsOver) {
  for (const bool dies : {false, true}) {
    auto worker = Worker::start(fakes());
    ASSERT_TRUE(worker.ok()) << worker.error().text();
    if (dies) kill(static_cast<pid_t>((*worker)->counts().pid), SIGKILL);
    (*worker)->stop();
    EXPECT_FALSE((*worker)->counts().up);
    (*worker)->stop();
    worker->reset();
  }
  EXPECT_EQ(kills_of_none, 0);
}

// A load and the release of a servable in other threads, while stop() ends the process.
TEST(Worker, EndsWhileOthersLoadAndRelease) {
  for (int round = 0; round < 20; ++round) {
    auto worker = Worker::start(fakes());
    ASSERT_TRUE(worker.ok()) << worker.error().text();
    auto kept = load(**worker, order_of("kept"));
    ASSERT_TRUE(kept.ok()) << kept.error().text();
    std::vector<std::thread> threads;
    std::atomic<bool> begun{false};
    std::vector<std::string> errors;
    threads.emplace_back([&] {
      while (true) {
        auto loaded = load(**worker, order_of("m"));  // released at once
        begun = true;
        if (loaded.ok()) continue;
        errors.push_back(loaded.error().message);
        return;
      }
    });
    while (!begun) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
    (*worker)->stop();
    for (std::thread& t : threads) t.join();
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_TRUE(errors[0] == "the worker process ended over loading the model" || errors[0] == "the server ends")
        << errors[0];
    worker->reset();
    // The servable is valid without its Worker, and refuses.
    auto caught = std::make_shared<Caught>();
    kept->servable->submit(1, {}, caught);
    const std::lock_guard<std::mutex> lock(caught->mutex);
    ASSERT_TRUE(caught->got);
    EXPECT_FALSE(caught->got->ok());
  }
}

TEST(Worker, AnswersThroughSharedMemory) {
  auto worker = Worker::start(fakes());
  ASSERT_TRUE(worker.ok()) << worker.error().text();
  LoadOrder order = order_of("m");
  order.config = *parse_model_config(
      "max_batch_size: 4 dynamic_batching { } model_warmup [ { name: 'a' }, { name: 'b' }, { name: 'c' } ]", "f");
  std::string said;
  auto loaded = (*worker)->load(order, [&](const std::string& s) { said = s; });
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  EXPECT_EQ(said, "loading m");
  EXPECT_EQ(loaded->note, "m 3 warm-ups, known: 0");
  EXPECT_EQ(loaded->batch_sizes, (std::vector<int64_t>{1, 2, 4}));
  runtime::Servable& model = *loaded->servable;
  EXPECT_EQ(shape_text(model.inputs()[0].shape), "[batch,n]");
  EXPECT_EQ(model.trouble(), "");
  for (const int64_t rows : {1, 3, 1000, 1, 50000}) {  // the second time of a size has room for its answer
    for (int again = 0; again < 2; ++again) {
      std::vector<float> x(static_cast<size_t>(rows) * 4);
      for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k % 7);
      auto caught = ask(model, x, rows);
      auto& y = caught->wait();
      ASSERT_TRUE(y.ok()) << y.error().text();
      ASSERT_EQ((*y)[0].dims(), (std::vector<int64_t>{rows, 4}));
      for (int64_t k = 0; k < (*y)[0].numel(); ++k) ASSERT_EQ((*y)[0].f64(k), 2.0 * static_cast<double>(k % 7));
    }
  }
  const auto refused_one = ask(model, {15, 0});
  const Error e = refused_one->wait().error();
  EXPECT_EQ(e.kind, ErrorKind::kInvalid);
  EXPECT_EQ(e.text(), invalid("a value of 15").at_node("here").expecting("another").text());
  for (int waited = 0; (*worker)->counts().memory_used != 0 && waited < 2000; ++waited)  // after its answer was told
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ((*worker)->counts().memory_used, 0u) << "every block is given back";
  const auto large = ask(model, std::vector<float>(1 << 20), 1);
  EXPECT_EQ(large->wait().error().kind, ErrorKind::kInvalid) << "it never fits";
}

TEST(Worker, CrashCostsTheRequestsUnderWay) {
  auto worker = Worker::start(fakes());
  ASSERT_TRUE(worker.ok()) << worker.error().text();
  auto loaded = load(**worker, order_of("m"));
  auto other = load(**worker, order_of("n"));
  ASSERT_TRUE(loaded.ok() && other.ok());
  for (int round = 0; round < 3; ++round) {
    const auto hangs = ask(*other->servable, {14, 0}, 1, 5);
    const auto dies = ask(*loaded->servable, {13, 0}, 1, 6);
    for (const auto& c : {dies, hangs}) {
      const Error e = c->wait().error();
      EXPECT_EQ(e.kind, ErrorKind::kRefused);
      EXPECT_NE(e.message.find("died of SIGSEGV"), std::string::npos) << e.message;
      EXPECT_NE(e.message.find("may be sent again"), std::string::npos);
    }
    for (const auto& l : {&*loaded, &*other}) {
      wait_for([&] { return l->servable->trouble().empty(); });
      const auto good = ask(*l->servable, {3, 4});
      EXPECT_EQ((*good->wait())[0].f64(1), 8);
    }
  }
  EXPECT_EQ((*worker)->counts().deaths, 3u);
  EXPECT_EQ((*worker)->counts().lost_requests, 6u);
  EXPECT_TRUE((*worker)->counts().up);
}

TEST(Worker, AModelOutlivesManyKills) {
  auto worker = Worker::start(fakes());
  ASSERT_TRUE(worker.ok());
  auto loaded = load(**worker, order_of("m"));
  ASSERT_TRUE(loaded.ok());
  Model model("m", 1, loaded->servable, {});
  std::atomic<int> right{0}, lost{0}, wrong{0}, sent{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> clients;
  for (int t = 0; t < 3; ++t)
    clients.emplace_back([&, t] {
      for (int k = 0; !stop; ++k) {
        auto call = std::make_shared<Call>();
        const float v = static_cast<float>(100 + 1000 * t + k % 100);
        call->inputs = {Tensor::of_f32({1, 2}, std::vector<float>{v, v})};
        std::atomic<bool> answered{false};
        call->done = [&](Answer a) {
          if (!a.error)
            ++(a.outputs[0].f64(0) == 2 * v ? right : wrong);
          else
            ++(a.error->kind == ErrorKind::kRefused && a.retry_after_ns > 0 ? lost : wrong);
          answered = true;
        };
        ++sent;
        model.submit(call);
        while (!answered) std::this_thread::yield();
      }
    });
  for (uint64_t kills = 1; kills <= 10; ++kills) {
    const int before = right;
    wait_for([&] { return right > before + 20 && (*worker)->counts().up; });
    kill(static_cast<pid_t>((*worker)->counts().pid), SIGKILL);
    wait_for([&] { return (*worker)->counts().deaths == kills; });
  }
  const int before = right;
  wait_for([&] { return right > before + 20; });
  stop = true;
  for (std::thread& t : clients) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(right + lost, sent) << "each is answered once";
  EXPECT_LE(lost, 30);
  wait_for([&] { return model.open() == 0; });
}

TEST(Worker, WhatIsAskedWhileThereIsNoneWaits) {
  auto worker = Worker::start(fakes());
  ASSERT_TRUE(worker.ok());
  auto loaded = load(**worker, order_of("m"));
  ASSERT_TRUE(loaded.ok());
  for (uint64_t round = 1; round <= 5; ++round) {
    kill(static_cast<pid_t>((*worker)->counts().pid), SIGKILL);
    wait_for([&] { return (*worker)->counts().deaths == round; });
    wait_for([&] { return !loaded->servable->trouble().empty() || (*worker)->counts().starts > round; });
    const auto y = ask(*loaded->servable, {3, 4});
    ASSERT_TRUE(y->wait().ok()) << y->wait().error().text();
    EXPECT_EQ((*y->wait())[0].f64(1), 8);
  }
  const auto dies = ask(*loaded->servable, {13, 0});
  EXPECT_FALSE(dies->wait().ok());
  wait_for([&] { return !loaded->servable->trouble().empty() || (*worker)->counts().starts > 6; });
  const auto held = ask(*loaded->servable, {3, 4});
  (*worker)->stop();
  (void)held->wait().ok();  // answered, or told that the server ends
  EXPECT_NE(ask(*loaded->servable, {3, 4})->wait().error().message.find("cannot be run"), std::string::npos);
}

TEST(Workers, EachDoesAPartAndOneThatFallsCostsItsOwn) {
  WorkerOptions first = fakes(), second = fakes();
  first.name = "worker 0";
  second.name = "worker 1";
  auto workers = Workers::start({first, second});
  ASSERT_TRUE(workers.ok()) << workers.error().text();
  LoadOrder order = order_of("m");
  order.config.batching.emplace();
  std::string said;
  auto loaded = (*workers)->load(order, [&](const std::string& s) { said = s; });
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  EXPECT_EQ(said, "worker 1: loading m");
  runtime::Servable& model = *loaded->servable;
  EXPECT_EQ(model.slots(), 4);
  const auto counts = [&](size_t k) { return (*workers)->counts()[k].second; };
  const auto hangs = ask(model, {14, 0}, 1, 7);
  wait_for([&] { return counts(0).under_way + counts(1).under_way == 1; });
  const size_t at = counts(0).under_way == 1 ? 0 : 1;
  for (uint64_t ticket = 10; ticket < 30; ++ticket) {
    const auto y = ask(model, {3, 4}, 1, ticket);
    ASSERT_TRUE(y->wait().ok()) << y->wait().error().text();
  }
  kill(static_cast<pid_t>(counts(at).pid), SIGKILL);
  EXPECT_NE(hangs->wait().error().message.find("died of SIGKILL"), std::string::npos);
  EXPECT_EQ(model.trouble(), "") << "the other answers";
  for (uint64_t ticket = 40; ticket < 60; ++ticket) {
    const auto y = ask(model, {3, 4}, 1, ticket);
    ASSERT_TRUE(y->wait().ok()) << y->wait().error().text();
  }
  wait_for([&] { return counts(at).up && model.slots() >= 4; });
  EXPECT_EQ(counts(at).deaths, 1u);
  EXPECT_EQ(counts(1 - at).deaths, 0u);
  EXPECT_FALSE(model.cancel(4711));
  (*workers)->stop();
  EXPECT_NE(model.trouble(), "");
}

TEST(Workers, AModelRunsWhereItsGroupsSay) {
  std::vector<WorkerOptions> options(3, fakes());
  for (size_t k = 0; k < 3; ++k) {
    options[k].name = "worker " + std::to_string(k);
    options[k].gpu = static_cast<int64_t>(k);
  }
  auto workers = Workers::start(options);
  ASSERT_TRUE(workers.ok()) << workers.error().text();
  LoadOrder order = order_of("m");
  order.config =
      *parse_model_config("instance_group [ { count: 3 gpus: [ 1, 2 ] }, { count: 4 kind: KIND_GPU gpus: 1 } ]", "f");
  std::vector<std::string> said;
  const auto load = [&] { return (*workers)->load(order, [&](const std::string& s) { said.push_back(s); }); };
  auto loaded = load();
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  EXPECT_EQ(said, (std::vector<std::string>{"loading m", "worker 2: loading m"}));
  EXPECT_EQ(loaded->servable->slots(), 3 + 4 + 3);
  order.config = *parse_model_config("instance_group { gpus: [ 0, 3 ] }", "f");
  const auto nowhere = load();
  ASSERT_FALSE(nowhere.ok());
  EXPECT_NE(nowhere.error().text().find("names GPU 3"), std::string::npos) << nowhere.error().text();
  EXPECT_NE(nowhere.error().text().find("GPU 0, GPU 1, GPU 2"), std::string::npos) << nowhere.error().text();
  EXPECT_FALSE(check_gpus(order.config, {-1}).ok()) << "a CPU is none";
  EXPECT_TRUE(check_gpus(*parse_model_config("instance_group { kind: KIND_GPU }", "f"), {0}).ok());
  (*workers)->stop();
}

TEST(Worker, LoadsThatFail) {
  auto worker = Worker::start(fakes());
  ASSERT_TRUE(worker.ok());
  const auto bad = load(**worker, order_of("bad"));
  EXPECT_EQ(bad.error().text(), invalid("nothing to load").in_file("somewhere").text());
  auto good = load(**worker, order_of("m"));
  const auto deadly = load(**worker, order_of("deadly"));
  EXPECT_NE(deadly.error().message.find("ended over loading"), std::string::npos) << deadly.error().text();
  wait_for([&] { return (*worker)->counts().deaths == 1 && good->servable->trouble().empty(); });
  const auto y = ask(*good->servable, {1, 2});
  EXPECT_TRUE(y->wait().ok());
  WorkerOptions none = fakes();
  none.program = "/bin/false";
  EXPECT_EQ(Worker::start(none).error().kind, ErrorKind::kRefused);
}

TEST(Worker, OneThatGetsNothingDoneIsEnded) {
  WorkerOptions o = fakes();
  o.stuck_after_ns = 100'000'000;
  o.kill_after_ns = 2'000'000'000;
  auto worker = Worker::start(o);
  ASSERT_TRUE(worker.ok());
  auto loaded = load(**worker, order_of("m"));
  const auto hangs = ask(*loaded->servable, {14, 0});
  EXPECT_NE(hangs->wait().error().message.find("died of SIGKILL"), std::string::npos);
  wait_for([&] { return loaded->servable->trouble().empty(); });
  const uint64_t deaths = (*worker)->counts().deaths;
  kill(static_cast<pid_t>((*worker)->counts().pid), SIGSTOP);
  wait_for([&] { return loaded->servable->trouble().find("stands still") != std::string::npos; });
  wait_for([&] { return (*worker)->counts().deaths > deaths; });
  wait_for([&] { return loaded->servable->trouble().empty(); });
  const WorkerCounts before = (*worker)->counts();
  EXPECT_EQ(before.ends[static_cast<size_t>(WorkerEnd::kStuck)], before.deaths);
  kill(static_cast<pid_t>(before.pid), SIGKILL);
  const auto ends_of = [](const WorkerCounts& c, WorkerEnd end) { return c.ends[static_cast<size_t>(end)]; };
  wait_for([&] { return ends_of((*worker)->counts(), WorkerEnd::kSignal) == 1; });  // by nobody here
  EXPECT_EQ(ends_of((*worker)->counts(), WorkerEnd::kStuck), before.deaths);
}

TEST(Worker, BlocksHoldWhatWasWritten) {
  const std::vector<Tensor> tensors = {
      Tensor::of_f32({2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6}), Tensor::of_i64({}, std::vector<int64_t>{7}),
      *Tensor::strings({2, 1}, {"", std::string("a\0b", 3)}), *Tensor::zeros(DType::kU8, {0, 5})};
  std::vector<std::byte> bytes(block_bytes(tensors));
  write_block(tensors, bytes);
  auto back = read_block(bytes, nullptr);
  ASSERT_TRUE(back.ok()) << back.error().text();
  ASSERT_EQ(back->size(), tensors.size());
  for (size_t k = 0; k < tensors.size(); ++k) EXPECT_TRUE((*back)[k].same_content(tensors[k])) << k;
  // Whatever the other side writes there is an error or tensors within the block.
  Rng rng(11);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> harmed = bytes;
    for (int k = 0; k < 3; ++k) harmed[rng.below(160)] = static_cast<std::byte>(rng.below(256));
    harmed.resize(rng.below(harmed.size() + 1));
    const auto read = read_block(harmed, nullptr);
    if (!read.ok()) continue;
    for (const Tensor& t : *read)
      if (t.dtype() != DType::kString && !t.bytes().empty())
        ASSERT_LE(t.bytes().data() + t.bytes().size(), harmed.data() + harmed.size());
  }
}

TEST(Arena, NeverGivesAPlaceTwice) {
  const uint64_t seed = 5;
  SCOPED_TRACE(seed);
  Rng rng(seed);
  Arena arena(4096, 4096 + (1 << 20));
  std::map<uint64_t, uint64_t> mine;
  uint64_t used = 0;
  for (int k = 0; k < 20000; ++k) {
    if (!mine.empty() && rng.below(2) == 0) {
      auto it = mine.lower_bound(rng.below(1 << 20));
      if (it == mine.end()) it = mine.begin();
      arena.give(it->first);
      used -= (it->second + 63) / 64 * 64;
      mine.erase(it);
    } else {
      const uint64_t bytes = 1 + rng.below(30000);
      const auto at = arena.take(bytes);
      if (!at) continue;
      ASSERT_EQ(*at % 64, 0u);
      ASSERT_GE(*at, 4096u);
      ASSERT_LE(*at + bytes, 4096u + (1 << 20));
      const auto next = mine.lower_bound(*at);
      ASSERT_TRUE(next == mine.end() || *at + bytes <= next->first);
      ASSERT_TRUE(next == mine.begin() || std::prev(next)->first + std::prev(next)->second <= *at);
      mine[*at] = bytes;
      used += (bytes + 63) / 64 * 64;
    }
    ASSERT_EQ(arena.used(), used);
  }
  for (const auto& [at, bytes] : mine) arena.give(at);
  EXPECT_EQ(arena.take(1 << 20), std::optional<uint64_t>(4096)) << "free parts come together again";
  EXPECT_EQ(arena.take(1), std::nullopt);
  arena.give(4096);
  (void)arena.unused_top();
  const auto top = arena.unused_top();
  EXPECT_EQ(top, std::pair(uint64_t{4096}, uint64_t{4096 + (1 << 20)})) << "it was used, but not since the last call";
}

}  // namespace
}  // namespace peri::serve
