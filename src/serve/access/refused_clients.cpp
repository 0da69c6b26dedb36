// Refusals within a second of a line are counted in the next line.
#include "serve/access/refused_clients.hpp"

#include "base/clock.hpp"

namespace peri::serve {

void RefusedClients::tell(const std::string& client, const std::string& why) {
  std::string line;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (told_ns_ != 0 && seconds_since(told_ns_) < 1) return (void)++untold_;
    told_ns_ = now_ns();
    line = "refused " + client + ": " + why;
    if (untold_ > 0) line += format("; %lld more before it", static_cast<long long>(untold_));
    untold_ = 0;
  }
  log_({LogLevel::kWarning, line});
}

}  // namespace peri::serve
