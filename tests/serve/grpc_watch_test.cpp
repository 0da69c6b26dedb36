// Who watches a server's health is told when it changes, by what changed and not by looking again and again.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "base/clock.hpp"
#include "serve/grpc/server.hpp"
#include "serve/load/http2.hpp"

namespace peri::serve {
namespace {

// A watch over a socket of its own. Each message is a prefix of five bytes and two of the status.
class Watcher {
 public:
  explicit Watcher(int port) {
    where_.port = port;
    auto socket = connect_to(where_);
    EXPECT_TRUE(socket.ok());
    socket_ = std::move(*socket);
    wire_ = std::make_unique<Http2Wire>(
        std::make_shared<const GrpcRequest>(grpc_request(where_, "/grpc.health.v1.Health/Watch", "")), 1 << 20);
    wire_->keep_answer();
    wire_->begin();
    say(wire_->ask());
  }
  // Whether so many messages came, waiting for them; or the call ended.
  bool hears(size_t messages) {
    const int64_t start = now_ns();
    while (wire_->answer().size() < 7 * messages && !over_ && seconds_since(start) < 30) step();
    return wire_->answer().size() == 7 * messages;
  }
  std::string ends() {
    const int64_t start = now_ns();
    while (!over_ && seconds_since(start) < 30) step();
    return over_ ? wire_->failure() : "it goes on";
  }
  int last() const { return wire_->answer().empty() ? 0 : wire_->answer().back(); }

 private:
  void say(std::string_view bytes) {
    while (!bytes.empty()) {
      pollfd writes{socket_.get(), POLLOUT, 0};
      poll(&writes, 1, 1000);
      const ssize_t n = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  void step() {
    pollfd reads{socket_.get(), POLLIN, 0};
    if (poll(&reads, 1, 50) <= 0) return;
    char bytes[4096];
    const ssize_t n = recv(socket_.get(), bytes, sizeof bytes, 0);
    over_ = n <= 0 || wire_->hear({bytes, static_cast<size_t>(n)}) != Wire::Heard::kMore;
    if (!over_) say(wire_->more());
  }
  Endpoint where_;
  Fd socket_;
  std::unique_ptr<Http2Wire> wire_;
  bool over_ = false;
};

class GrpcWatch : public ::testing::Test {
 protected:
  void SetUp() override {
    GrpcOptions options;
    options.ready = [this](std::string_view) {
      ++asked_;
      return status_.load();
    };
    auto started = GrpcServer::start(options, [this](const std::shared_ptr<Exchange>& e) {
      HttpReply reply;
      reply.status = first_;
      e->reply(std::move(reply));
    });
    if (!started.ok() && started.error().kind == ErrorKind::kUnsupported) GTEST_SKIP() << started.error().text();
    ASSERT_TRUE(started.ok());
    server_ = std::move(*started);
  }
  std::atomic<int> asked_{0}, status_{200}, first_{200};
  std::unique_ptr<GrpcServer> server_;
};

TEST_F(GrpcWatch, TellsWhatChanged) {
  Watcher w(server_->port());
  ASSERT_TRUE(w.hears(1));
  EXPECT_EQ(w.last(), 1) << "SERVING";
  status_ = 400;
  server_->changed();
  ASSERT_TRUE(w.hears(2));
  EXPECT_EQ(w.last(), 2) << "NOT_SERVING";
  server_->changed();  // nothing did
  status_ = 404;
  server_->changed();
  ASSERT_TRUE(w.hears(3));
  EXPECT_EQ(w.last(), 3) << "SERVICE_UNKNOWN";
  server_->drain(30);
  EXPECT_EQ(w.ends(), "UNAVAILABLE");
}

TEST_F(GrpcWatch, AsksOnlyWhenSomethingChanged) {
  std::vector<std::unique_ptr<Watcher>> all;
  for (int k = 0; k < 8; ++k) all.push_back(std::make_unique<Watcher>(server_->port()));
  for (const auto& w : all) ASSERT_TRUE(w->hears(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  EXPECT_LE(asked_, 8) << "once for each, behind its first message";
}

TEST_F(GrpcWatch, AChangeBesideTheFirstAnswerIsTold) {
  status_ = 400;  // since the handler looked; who changed it found nobody watching
  Watcher w(server_->port());
  ASSERT_TRUE(w.hears(2));
  EXPECT_EQ(w.last(), 2);
}

TEST_F(GrpcWatch, ClientsThatLeaveAreForgotten) {
  for (int k = 0; k < 50; ++k) {
    Watcher w(server_->port());
    ASSERT_TRUE(w.hears(1));
  }
  Watcher stays(server_->port());
  ASSERT_TRUE(stays.hears(1));
  size_t messages = 1;
  int asked = 0;
  const int64_t start = now_ns();
  do {  // until the server has heard of the last that left
    const int before = asked_;
    status_ = status_ == 200 ? 400 : 200;
    server_->changed();
    ASSERT_TRUE(stays.hears(++messages));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    asked = asked_ - before;
  } while (asked > 2 && seconds_since(start) < 30);
  EXPECT_LE(asked, 2) << "for the one that stays: at the change, and behind its message";
}

}  // namespace
}  // namespace peri::serve
