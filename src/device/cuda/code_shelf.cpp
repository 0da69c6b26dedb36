// A map of code that is finished, in progress or waiting, and the threads that compile it.
#include "device/cuda/code_shelf.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>

#include "base/clock.hpp"
#include "base/fault.hpp"
#include "base/thread_pool.hpp"

namespace peri::device::cuda {

namespace {
constexpr int kMaxThreads = 32;
using Kept = Result<std::shared_ptr<const Code>>;

struct Entry {
  bool begun = false;
  std::optional<Kept> made;
};
}  // namespace

struct CodeShelf::State {
  std::unique_ptr<Compiler> compiler;
  size_t most_bytes = 0;
  Begin begin;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::shared_ptr<Entry>> entries;
  std::list<std::string> made;  // keys of code that is there, the oldest first
  size_t bytes = 0;             // of it
  std::deque<std::pair<std::string, Source>> urgent, waiting;
  std::vector<std::thread> threads;
  size_t idle = 0;
  bool ends = false;
  std::atomic<int64_t> waited_ns{0};

  // REQUIRES: this thread has begun the entry; the mutex is free. Nothing is thrown before those who wait are told.
  Kept make(const std::string& key, const Source& source, const std::shared_ptr<Entry>& entry) {
    const Kept out = contained([&]() -> Kept {
      auto code = compiler->compile(source);
      if (!code.ok()) return std::move(code).error();
      return std::make_shared<const Code>(std::move(*code));
    });
    const std::lock_guard<std::mutex> lock(mutex);
    entry->made.emplace(out);
    changed.notify_all();
    if (out.ok()) {
      bytes += (*out)->cubin.size() + (*out)->log.size();
      made.push_back(key);
      forget();
    } else {
      entries.erase(key);
    }
    return out;
  }

  // REQUIRES: the mutex is held. The newest stays, however large it is: somebody has just asked for it.
  void forget() {
    while (bytes > most_bytes && made.size() > 1) {
      const auto oldest = entries.find(made.front());
      const Code& code = **oldest->second->made.value();
      bytes -= code.cubin.size() + code.log.size();
      entries.erase(oldest);
      made.pop_front();
    }
  }

  // With the weight and the policy of any thread: less would let code that a candidate waits for come last on a machine
  // that is shared, and what is timed beside it takes as long.
  void work() {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      ++idle;
      changed.wait(lock, [&] { return ends || !urgent.empty() || !waiting.empty(); });
      --idle;
      if (ends) return;
      auto& queue = urgent.empty() ? waiting : urgent;
      auto [key, source] = std::move(queue.front());
      queue.pop_front();
      const auto it = entries.find(key);
      if (it == entries.end() || it->second->begun) continue;
      const std::shared_ptr<Entry> entry = it->second;
      entry->begun = true;
      lock.unlock();
      (void)make(key, source, entry);
      lock.lock();
    }
  }

  // REQUIRES: the mutex is held.
  void add_thread() {
    const auto most = static_cast<size_t>(std::clamp(usable_cpus() - 1, 1, kMaxThreads));
    if (idle >= waiting.size() + urgent.size() || threads.size() >= most) return;
    threads.reserve(threads.size() + 1);  // so that no thread begins that cannot be kept
    threads.push_back(begin([this] {
      // Without memory for a note of it nothing more is foreseen; who asks compiles for himself.
      (void)contained([this] { work(); });
    }));
  }
};

CodeShelf::CodeShelf(std::unique_ptr<Compiler> compiler, size_t most_bytes, Begin begin)
    : state_(std::make_unique<State>()) {
  state_->compiler = std::move(compiler);
  state_->most_bytes = most_bytes;
  state_->begin = begin ? std::move(begin) : [](std::function<void()> run) { return std::thread(std::move(run)); };
}

CodeShelf::~CodeShelf() {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->ends = true;
    state_->changed.notify_all();
  }
  for (std::thread& t : state_->threads) t.join();
}

const Compiler& CodeShelf::compiler() const { return *state_->compiler; }
double CodeShelf::waited_seconds() const { return static_cast<double>(state_->waited_ns.load()) * 1e-9; }

CodeShelf::Held CodeShelf::held() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return {state_->entries.size(), state_->bytes};
}

Result<std::shared_ptr<const Code>> CodeShelf::get(const Source& source) {
  State& s = *state_;
  const std::string key = s.compiler->key(source);
  struct Wait {
    State& s;
    const int64_t since = now_ns();
    ~Wait() { s.waited_ns += now_ns() - since; }
  } const wait{s};
  std::shared_ptr<Entry> entry;
  {
    std::unique_lock<std::mutex> lock(s.mutex);
    std::shared_ptr<Entry>& kept = s.entries[key];
    if (!kept) kept = std::make_shared<Entry>();
    entry = kept;
    if (entry->begun) {
      s.changed.wait(lock, [&] { return entry->made.has_value(); });
      return *entry->made;
    }
    entry->begun = true;
  }
  return s.make(key, source, entry);
}

void CodeShelf::foresee(Source source, bool urgent) {
  State& s = *state_;
  std::string key = s.compiler->key(source);
  const std::lock_guard<std::mutex> lock(s.mutex);
  const auto [entry, fresh] = s.entries.try_emplace(key);
  if (fresh) entry->second = std::make_shared<Entry>();
  if (!fresh && !(urgent && !entry->second->begun)) return;  // what waits may become urgent
  std::deque<std::pair<std::string, Source>>& queue = urgent ? s.urgent : s.waiting;
  queue.emplace_back(std::move(key), std::move(source));
  const Status threads = contained([&] { s.add_thread(); });
  if (!threads.ok() && s.threads.empty()) {  // nobody will come for it
    s.entries.erase(queue.back().first);
    queue.pop_back();
  }
  s.changed.notify_all();
}

Result<CodeShelf*> CodeShelf::of_process() {
  static std::mutex mutex;
  static CodeShelf* kept = nullptr;
  const std::lock_guard<std::mutex> lock(mutex);
  if (!kept) {
    PERI_ASSIGN(auto compiler, Compiler::open(code_cache_folder()));
    static const auto shelf =
        std::make_unique<CodeShelf>(std::move(compiler));  // goes before the library that it opened
    kept = shelf.get();
  }
  return kept;
}

}  // namespace peri::device::cuda
