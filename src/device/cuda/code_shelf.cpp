// A map of what is there, under way or waiting, and the threads that work it off.
#include "device/cuda/code_shelf.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "base/thread_pool.hpp"

namespace peri::device::cuda {

namespace {
constexpr int kMostThreads = 32;
constexpr int kNice = 5;  // of threads that compile for later: who measures goes first
using Kept = Result<std::shared_ptr<const Code>>;

struct Entry {
  bool begun = false;
  std::optional<Kept> made;
};
}  // namespace

struct CodeShelf::State {
  std::unique_ptr<Compiler> compiler;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::shared_ptr<Entry>> entries;
  std::deque<std::pair<std::string, Source>> waiting;
  std::vector<std::thread> threads;
  size_t idle = 0;
  bool ends = false;

  // REQUIRES: this thread has begun the entry; the mutex is free.
  Kept make(const std::string& key, const Source& source, const std::shared_ptr<Entry>& entry) {
    auto code = compiler->compile(source);
    Kept out = code.ok() ? Kept(std::make_shared<const Code>(std::move(*code))) : Kept(std::move(code).error());
    const std::lock_guard<std::mutex> lock(mutex);
    entry->made = out;
    if (!out.ok()) entries.erase(key);
    changed.notify_all();
    return out;
  }

  void work() {
    (void)setpriority(PRIO_PROCESS, 0, kNice);  // of this thread alone
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      ++idle;
      changed.wait(lock, [&] { return ends || !waiting.empty(); });
      --idle;
      if (ends) return;
      auto [key, source] = std::move(waiting.front());
      waiting.pop_front();
      const auto it = entries.find(key);
      if (it == entries.end() || it->second->begun) continue;
      const std::shared_ptr<Entry> entry = it->second;
      entry->begun = true;
      lock.unlock();
      (void)make(key, source, entry);
      lock.lock();
    }
  }
};

CodeShelf::CodeShelf(std::unique_ptr<Compiler> compiler) : state_(std::make_unique<State>()) {
  state_->compiler = std::move(compiler);
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

Result<std::shared_ptr<const Code>> CodeShelf::get(const Source& source) {
  State& s = *state_;
  const std::string key = s.compiler->key(source);
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

void CodeShelf::foresee(Source source) {
  State& s = *state_;
  std::string key = s.compiler->key(source);
  const std::lock_guard<std::mutex> lock(s.mutex);
  if (!s.entries.emplace(key, std::make_shared<Entry>()).second) return;
  s.waiting.emplace_back(std::move(key), std::move(source));
  const auto most = static_cast<size_t>(std::clamp(usable_cpus() - 1, 1, kMostThreads));
  if (s.idle < s.waiting.size() && s.threads.size() < most) s.threads.emplace_back([&s] { s.work(); });
  s.changed.notify_all();
}

Result<CodeShelf*> CodeShelf::of_process() {
  static std::mutex mutex;
  static std::unique_ptr<CodeShelf> kept;
  const std::lock_guard<std::mutex> lock(mutex);
  if (!kept) {
    PERI_ASSIGN(auto compiler, Compiler::open(code_cache_folder()));
    kept = std::make_unique<CodeShelf>(std::move(compiler));
  }
  return kept.get();
}

}  // namespace peri::device::cuda
