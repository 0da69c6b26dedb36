// One exchange and signals: those that stop nothing are waited through, one that stops ends the wait.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include "base/file.hpp"
#include "serve/load/endpoint.hpp"

namespace peri::serve {
namespace {

// A server that answers its one request when it is told to, or when it ends.
class SlowServer {
 public:
  SlowServer() {
    where.unix_socket =
        (std::filesystem::path(::testing::TempDir()) / ("peri_talk_" + std::to_string(getpid()))).string();
    std::filesystem::remove(where.unix_socket);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    where.unix_socket.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(bind(listening_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listening_.get(), 1), 0);
    thread_ = std::thread([this] {
      const Fd one(accept(listening_.get(), nullptr, nullptr));
      char room[4096];
      EXPECT_GT(recv(one.get(), room, sizeof room, 0), 0);
      asked = true;
      while (!answers) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      constexpr std::string_view kReply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
      send(one.get(), kReply.data(), kReply.size(), MSG_NOSIGNAL);
    });
  }
  ~SlowServer() {
    answers = true;
    thread_.join();
    std::filesystem::remove(where.unix_socket);
  }
  Endpoint where;
  std::atomic<bool> asked = false, answers = false;

 private:
  Fd listening_{socket(AF_UNIX, SOCK_STREAM, 0)};
  std::thread thread_;
};

std::atomic<int> seen = 0;

// Signals to this thread, from the moment at which the request has come, until `done`.
class Talk : public ::testing::Test {
 protected:
  void SetUp() override {
    struct sigaction action = {};
    action.sa_handler = [](int) { ++seen; };
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before_), 0);
    seen = 0;
  }
  void TearDown() override { sigaction(SIGUSR1, &before_, nullptr); }
  static void wait_until(const std::atomic<bool>& what) {
    while (!what) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  struct sigaction before_ = {};
};

TEST_F(Talk, ASignalThatStopsNothingIsWaitedThrough) {
  SlowServer server;
  std::thread other([&, self = pthread_self()] {
    wait_until(server.asked);
    for (int k = 0; k < 5; ++k) {
      pthread_kill(self, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    server.answers = true;
  });
  const auto answer = http_ask(server.where, "GET", "/", "", "", 60000);
  other.join();
  ASSERT_TRUE(answer.ok()) << answer.error().text();
  EXPECT_EQ(answer->body, "ok");
  EXPECT_GT(seen, 0);
}

TEST_F(Talk, OneThatStopsEndsTheWait) {
  SlowServer server;
  std::atomic<bool> done = false;
  std::thread other([&, self = pthread_self()] {
    wait_until(server.asked);
    while (!done) {
      pthread_kill(self, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  const auto answer = http_ask(server.where, "GET", "/", "", "", 60000, size_t{1} << 20, [] { return seen > 0; });
  done = true;
  other.join();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().kind, ErrorKind::kCancelled);
}

}  // namespace
}  // namespace peri::serve
