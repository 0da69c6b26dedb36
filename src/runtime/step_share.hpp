// What steps of an engine and of its bodies have in common, such as packed weights, by a key that the executor writes.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace peri::runtime {

class StepShare {
 public:
  // The object of this key and type if anybody still has it, else what `make` returns, a std::shared_ptr<T>. It lives
  // as long as its holders. Thread-safe; `make` runs under the lock: it must be short and ask for nothing here.
  // REQUIRES: objects of one key have one type.
  template <class T, class Make>
  std::shared_ptr<T> get(const std::string& key, Make&& make) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::weak_ptr<void>& known = by_key_[key];
    if (auto same = std::static_pointer_cast<T>(known.lock())) return same;
    std::shared_ptr<T> fresh = make();
    known = fresh;
    return fresh;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<void>> by_key_;
};

}  // namespace peri::runtime
