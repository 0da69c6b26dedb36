// A socket's name that another server left behind, or has, or that is somebody's file.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "serve/http/message.hpp"
#include "serve/load/endpoint.hpp"

namespace peri::serve {
namespace {

namespace fs = std::filesystem;

class UnixSocket : public ::testing::Test {
 protected:
  void SetUp() override {
    name_ = (fs::path(::testing::TempDir()) / ("peri_socket_" + std::to_string(getpid()))).string();
    fs::remove(name_);
  }
  void TearDown() override { fs::remove(name_); }
  Result<std::unique_ptr<HttpServer>> start() const {
    HttpOptions options;
    options.port = -1;
    options.unix_socket = name_;
    return HttpServer::start(options, [](const std::shared_ptr<Exchange>& e) { e->reply(HttpReply()); });
  }
  int status() const {
    Endpoint where;
    where.unix_socket = name_;
    const auto answer = http_ask(where, "GET", "/");
    return answer.ok() ? answer->status : -1;
  }
  std::string name_;
};

TEST_F(UnixSocket, OneThatAKilledServerLeftIsTaken) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  ASSERT_LT(name_.size(), sizeof address.sun_path);
  name_.copy(address.sun_path, name_.size());
  {
    const Fd left(socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(bind(left.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(left.get(), 1), 0);
  }
  ASSERT_TRUE(fs::exists(name_));
  const auto server = start();
  ASSERT_TRUE(server.ok()) << server.error().text();
  EXPECT_EQ(status(), 200);
}

TEST_F(UnixSocket, OneThatAServerHasIsNot) {
  const auto first = start();
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(start().ok());
  EXPECT_EQ(status(), 200) << "the first has it still";
}

TEST_F(UnixSocket, AFileIsNoSocket) {
  ASSERT_TRUE(write_file_atomic(name_, "mine").ok());
  EXPECT_FALSE(start().ok());
  EXPECT_EQ(*read_file(name_, 100), "mine");
}

}  // namespace
}  // namespace peri::serve
