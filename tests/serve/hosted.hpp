// Shared by tests of worker processes: the program of hosted_fakes, orders, requests and their responses.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <thread>

#include "serve/worker/workers.hpp"
#include "tests/places.hpp"

namespace peri::serve {

inline WorkerOptions fakes() {
  WorkerOptions o;
  o.program = std::string(tests::kBuildDir) + "/bin/hosted_fakes";
  o.memory_bytes = 8 << 20;
  return o;
}

inline LoadOrder order_of(const std::string& name) {
  LoadOrder out;
  out.name = name;
  out.version = 1;
  out.path = "somewhere";
  return out;
}

inline Result<Loaded> load(Worker& worker, const LoadOrder& order) {
  return worker.load(order, [](const std::string&) {});
}

// Collects responses.
struct Caught final : runtime::Sink {
  void answer(Result<std::vector<Tensor>> outputs, bool) override {
    const std::lock_guard<std::mutex> lock(mutex);
    got = std::make_unique<Result<std::vector<Tensor>>>(std::move(outputs));
    ready.notify_all();
  }
  Result<std::vector<Tensor>>& wait() {
    std::unique_lock<std::mutex> lock(mutex);
    ready.wait(lock, [&] { return got != nullptr; });
    return *got;
  }
  std::mutex mutex;
  std::condition_variable ready;
  std::unique_ptr<Result<std::vector<Tensor>>> got;
};

inline std::shared_ptr<Caught> ask(runtime::Servable& model, std::vector<float> values, int64_t rows = 1,
                                   uint64_t ticket = 1) {
  auto out = std::make_shared<Caught>();
  const int64_t columns = static_cast<int64_t>(values.size()) / rows;
  model.submit(ticket, {Tensor::of_f32({rows, columns}, values)}, out);
  return out;
}

inline void wait_for(const std::function<bool()>& what) {
  while (!what()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace peri::serve
