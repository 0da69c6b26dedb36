// Log lines of clients that were refused for their certificate: at most one a second, whatever comes.
#pragma once

#include <mutex>

#include "serve/observe/server_log.hpp"

namespace peri::serve {

// Thread-safe.
class RefusedClients {
 public:
  explicit RefusedClients(Log log) : log_(std::move(log)) {}
  // `client`: its address, or the port that it came to.
  void tell(const std::string& client, const std::string& why);

 private:
  const Log log_;
  std::mutex mutex_;
  int64_t told_ns_ = 0, untold_ = 0;
};

}  // namespace peri::serve
