// Bell: passes changes of readiness to the gRPC server while it exists, for its health watches, and those of the models
// to the health of all, since ensembles depend on them.
#pragma once

#include <mutex>

#include "base/clock.hpp"
#include "serve/grpc/server.hpp"
#include "serve/health/health.hpp"

namespace peri::cli {

struct Bell {
  std::mutex mutex, look_mutex;
  serve::GrpcServer* hears = nullptr;
  serve::Health* looks = nullptr;
  void ring() {
    const std::lock_guard<std::mutex> lock(mutex);
    if (hears) hears->changed();
  }
  // Models were loaded or unloaded.
  void look_and_ring() {
    {
      const std::lock_guard<std::mutex> lock(look_mutex);
      if (looks) looks->look(now_ns());
    }
    ring();
  }
  void hand_to(serve::GrpcServer* server, serve::Health* health) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      hears = server;
    }
    const std::lock_guard<std::mutex> lock(look_mutex);
    looks = health;
  }
};

}  // namespace peri::cli
