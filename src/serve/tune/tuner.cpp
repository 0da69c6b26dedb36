// A search assumes that the machine is otherwise idle: this model is not served yet, but others may be.
#include "serve/tune/tuner.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/clock.hpp"
#include "base/fault.hpp"
#include "base/file.hpp"
#include "base/rng.hpp"
#include "base/shell_word.hpp"
#include "base/stop.hpp"
#include "serve/queue/rows.hpp"

namespace peri::serve {
namespace {

// Waits for the answer to one submit().
struct Waiter final : runtime::Sink {
  void answer(Result<std::vector<Tensor>> outputs, bool last) override {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!outputs.ok()) error = outputs.error();
    done = done || last;
    changed.notify_all();
  }
  Status wait() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return done; });
    if (error) return *error;
    return Ok{};
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::optional<Error> error;
};

// State shared by the calls of one measurement; they may outlive it briefly.
struct Tally {
  std::mutex mutex;
  Seen seen;
  std::atomic<int64_t> open{0};
};

void sleep_until(int64_t when_ns) {
  const int64_t left = when_ns - now_ns();
  if (left > 100000) std::this_thread::sleep_for(std::chrono::nanoseconds(left - 60000));
  while (now_ns() < when_ns) std::this_thread::yield();  // Clock: it waits for a time
}

Seen load_model(Model& model, const std::vector<Tensor>& row, double per_second, double seconds, uint64_t seed,
                const std::function<bool()>& stop) {
  const auto tally = std::make_shared<Tally>();
  std::vector<std::shared_ptr<Call>> calls;  // waiting calls are cancelled if the search is stopped
  Rng rng(seed);
  const int64_t begin = now_ns(), end = begin + static_cast<int64_t>(seconds * 1e9);
  // A rate above what this thread can send shows as latency; twice the duration is enough to detect that.
  // Clock: requests are due at times, and latency is counted from them.
  for (int64_t due = begin; due < end && now_ns() < 2 * end - begin && !(stop && stop());) {
    sleep_until(due);
    const auto call = std::make_shared<Call>();
    call->inputs = row;
    call->done = [tally, due](const Answer& a) {
      const std::lock_guard<std::mutex> lock(tally->mutex);
      if (a.error)
        tally->seen.kept_up = false;
      else
        tally->seen.latency.add(now_ns() - due);  // Clock: as above
      --tally->open;
    };
    ++tally->open;
    calls.push_back(call);
    model.submit(call);
    due += std::max<int64_t>(1, static_cast<int64_t>(-std::log(1.0 - rng.uniform()) * 1e9 / per_second));
  }
  while (tally->open > 0 || model.open() > 0) {
    if (stop && stop())
      for (const auto& call : std::exchange(calls, {})) model.cancel(call);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const std::lock_guard<std::mutex> lock(tally->mutex);
  return tally->seen;
}

// The first row of the loader's sample inputs.
Result<std::vector<Tensor>> first_row(const std::vector<Tensor>& sample) {
  if (sample.empty()) return refused("no inputs can be made up for the model");
  for (const Tensor& t : sample)
    if (t.rank() == 0 || t.dims()[0] < 1) return refused("an input has no rows");
  std::vector<Tensor> out;
  for (const Tensor& t : sample) {
    PERI_ASSIGN(auto row, take_rows(std::span(&t, 1), t.dims()[0], 0, 1));
    out.push_back(std::move(row[0]));
  }
  return out;
}
}  // namespace

Result<RunTimes> run_times(runtime::Servable& model, const std::vector<Tensor>& row, std::span<const int64_t> sizes,
                           const TimeRuns& time_runs) {
  RunTimes out;
  int64_t last = 0;
  for (const int64_t size : sizes) {
    if (size < 2 * last && size != sizes.back()) continue;
    last = size;
    const std::vector<const std::vector<Tensor>*> parts(static_cast<size_t>(size), &row);
    PERI_ASSIGN(const auto joined, size == 1 ? Result<std::vector<Tensor>>(row) : join_rows(parts));
    const auto run = [&]() -> Status {
      const auto waiter = std::make_shared<Waiter>();
      model.submit(0, joined, waiter);
      return waiter->wait();
    };
    PERI_ASSIGN(const int64_t took, time_runs(run, stop_asked));
    if (stop_asked()) return Error(ErrorKind::kCancelled, "interrupted");
    out[size] = std::max<int64_t>(took, 1);
  }
  return out;
}

Measure measure_on(std::shared_ptr<runtime::Servable> model, std::vector<Tensor> row, ModelOptions options,
                   double seconds, uint64_t seed, std::function<bool()> stop) {
  return [=](const BatchSettings& settings, double per_second) -> Result<Seen> {
    if (stop && stop()) return Error(ErrorKind::kCancelled, "interrupted");
    ModelOptions mine = options;
    mine.queue = with_settings(options.queue, settings);
    Model queue("tune", 1, model, mine);
    return load_model(queue, row, per_second, seconds, seed, stop);
  };
}

void Tuner::say(const LoadOrder& order, const std::string& what) const {
  if (options_.say) options_.say(order.name + " version " + std::to_string(order.version) + ": " + what);
}

static StatedBatching stated_in(const ModelConfig& config) {
  if (!config.batching) return {config.max_batch_size, 0, {}};
  return {config.max_batch_size, config.batching->max_queue_delay_us, config.batching->preferred};
}

Result<KeptTuning> Tuner::search(const LoadOrder& order, const Loaded& loaded, const ModelOptions& options) const {
  const StopScope stop(options_.stop);
  PERI_ASSIGN(const std::vector<Tensor> row, first_row(loaded.canary.inputs));
  Search s;
  s.objective = *options_.objective;
  s.policy = options.queue;
  s.policy.sizes = loaded.batch_sizes;
  s.slots = loaded.servable->slots();
  PERI_ASSIGN(s.times, run_times(*loaded.servable, row, loaded.batch_sizes, options_.time_runs));
  ModelOptions mine = options;
  mine.queue.sizes = loaded.batch_sizes;
  mine.queue.level = {longest_queue(s), 0, false, false};
  mine.queue.levels.clear();
  KeptTuning out;
  PERI_ASSIGN(out.tried, find_settings(s, measure_on(loaded.servable, row, mine, options_.seconds, 1, options_.stop)));
  out.best = out.tried.front();
  out.objective = s.objective.text();
  PERI_ASSIGN(out.files, content_of(order.path));
  out.slots = s.slots;
  out.machine = options_.machine;
  out.stated = stated_in(order.config);
  return out;
}

// Whether a result is of the files that are loaded, and of what their configuration says now.
static bool is_of(const LoadOrder& order, const KeptTuning& kept) {
  if (kept.stated != stated_in(order.config)) return false;
  const auto files = content_of(order.path);
  return files.ok() && *files == kept.files;
}

// Links are followed, and a file of another kind stays.
static Status keep(const std::string& path, const KeptTuning& found) {
  if (Status may = check_replaces(path, kTuningFile, false); !may.ok())
    return std::move(may).error().advise("move it elsewhere");
  return write_named_file(path, kept_tuning_json(found));
}

void Tuner::settle(const std::string& folder, const LoadOrder& order, const Loaded& loaded,
                   ModelOptions* options) const {
  const std::string path = folder + "/" + std::string(kTuningPrefix) + std::to_string(order.version) + ".json";
  const bool wanted = options_.objective.has_value();
  if (loaded.batch_sizes.empty()) {
    if (wanted) say(order, "not tuned: its configuration asks for no batches, or no batch answers as one row does");
    return;
  }
  if (options->sequences || options->form) {
    if (wanted) say(order, "not tuned: it has sequences, or its clients see other tensors than the model has");
    return;
  }
  const auto use = [&](const KeptTuning& t, bool kept) {
    options->queue = with_settings(std::move(options->queue), t.best.settings);
    say(order, (kept ? path + ": " : "") + tuning_text(t));
  };
  if (auto kept = read_kept_tuning(path); kept.ok()) {
    const bool same = kept->slots == loaded.servable->slots() && kept->machine == options_.machine &&
                      (!wanted || kept->objective == options_.objective->text()) && is_of(order, *kept);
    if (same) return use(*kept, true);
    if (!wanted)
      say(order, path +
                     " is of other files, batch settings of its configuration, instances or another machine: not used; "
                     "peri serve --tune " +
                     shell_word(kept->objective) + " makes it anew");
  } else if (kept.error().kind != ErrorKind::kIo) {
    say(order, "not used: " + kept.error().text());
  }
  if (!wanted) return;
  say(order, "looking for the batch size and delay of " + options_.objective->text());
  const auto found = contained([&] { return search(order, loaded, *options); });
  if (!found.ok()) return say(order, "not tuned: " + found.error().text());
  const Status kept = keep(path, *found);
  if (!kept.ok()) say(order, "what was found is not kept: " + kept.error().text());
  use(*found, kept.ok());
}

}  // namespace peri::serve
