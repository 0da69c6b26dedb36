// A worker process for tests: models that double f32[n,k] and do what their first value asks for: 13 ends the process,
// 14 never answers, 15 is an error, 16 ends the device, 17 runs until there is a file at the model's path. A model
// named "bad" cannot be loaded, "deadly" ends the process that loads it, "trap" its device, "late" loads while there is
// a file at its path, which may say "kill" or "hang".
#include <signal.h>
#include <unistd.h>

#include <cstdio>

#include "base/file.hpp"
#include "serve/worker/host.hpp"
#include "tests/serve/fake_servable.hpp"

namespace peri::serve {
namespace {

std::atomic<bool> is_lost{false};

class Moody final : public runtime::Servable {
 public:
  Moody(int slots, std::string path) : slots_(slots), path_(std::move(path)) {}
  std::span<const plan::Port> inputs() const override { return good_.inputs(); }
  std::span<const plan::Port> outputs() const override { return good_.outputs(); }
  int slots() const override { return slots_; }
  bool cancel(uint64_t) override { return false; }
  runtime::Cost cost(std::span<const Tensor> tensors) const override { return good_.cost(tensors); }
  uint64_t progress() const override { return good_.progress(); }
  void submit(uint64_t ticket, std::vector<Tensor> tensors, std::shared_ptr<runtime::Sink> sink) override {
    const double mood = tensors[0].numel() > 0 ? tensors[0].f64(0) : 0;
    if (mood == 13) raise(SIGSEGV);
    while (mood == 14) pause();
    while (mood == 17 && access(path_.c_str(), F_OK) != 0) usleep(1000);
    if (mood == 16) {
      is_lost = true;
      return sink->answer(io_error("the device failed"), true);
    }
    if (mood == 15) return sink->answer(invalid("a value of 15").at_node("here").expecting("another"), true);
    good_.submit(ticket, std::move(tensors), std::move(sink));
  }

 private:
  const int slots_;
  const std::string path_;
  FakeServable good_{slots_};
};

Result<Loaded> load(const LoadOrder& order, const std::function<void(const std::string&)>& say) {
  say("loading " + order.name);
  if (order.name == "bad") return invalid("nothing to load").in_file(order.path);
  if (order.name == "deadly") raise(SIGKILL);
  if (order.name == "trap") {
    is_lost = true;
    return io_error("the device failed over loading");
  }
  if (order.name == "late") {
    const auto says = read_file(order.path, 100);
    if (!says.ok()) return io_error("no device").in_file(order.path);
    if (*says == "kill") raise(SIGKILL);
    while (*says == "hang") pause();
  }
  Loaded out;
  out.servable = std::make_shared<Moody>(static_cast<int>(order.instances.value_or(2)), order.path);
  out.backend = "fake";
  out.note = order.name + format(" %zu warm-ups, known: %d", order.config.warmups.size(), order.known_sizes ? 1 : 0);
  out.batch_sizes = order.config.batching ? std::vector<int64_t>{1, 2, 4} : std::vector<int64_t>();
  out.canary.inputs = {Tensor::of_f32({1, 2}, std::vector<float>{1, 2})};
  out.canary.outputs = {Tensor::of_f32({1, 2}, std::vector<float>{2, 4})};
  return out;
}
}  // namespace
}  // namespace peri::serve

int main() {
  const peri::Status served = peri::serve::serve_as_worker(
      peri::Fd(peri::serve::kWorkerSocket), peri::Fd(peri::serve::kWorkerMemory), peri::serve::load,
      [](int code) { _exit(code); },
      []() -> std::optional<peri::Error> {
        if (!peri::serve::is_lost) return std::nullopt;
        return peri::io_error("fake:0\n is lost").but_found("after 'a kernel'");
      });
  if (!served.ok()) std::fprintf(stderr, "%s\n", served.error().text().c_str());
  return 1;
}
