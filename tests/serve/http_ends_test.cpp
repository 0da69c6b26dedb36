// Connections whose client goes away, sends no more, or speaks HTTP/1.0: who is answered, and who is let go. Runs under
// the sanitizers too (tools/sanitize/serve.py).
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "serve/http/message.hpp"
#include "tests/serve/http_client.hpp"

namespace peri::serve {
namespace {

TEST(Http, AClientThatGoesIsNoticedWhateverItSent) {
  std::atomic<int> asked{0}, gone{0};
  std::mutex mutex;
  std::vector<std::shared_ptr<Exchange>> open;
  const auto http = std::move(*HttpServer::start({}, [&](const std::shared_ptr<Exchange>& e) {
    e->on_gone([&] { ++gone; });
    const std::lock_guard<std::mutex> lock(mutex);
    open.push_back(e);
    ++asked;
  }));
  const auto soon = [](const std::atomic<int>& count, int want) {
    for (int k = 0; k < 30000 && count < want; ++k) usleep(1000);
    return count == want;
  };
  int sent = 0;
  for (const size_t bytes : {0, 100, 16000, 30000, 40000, 100000, 3000000}) {
    {
      Client client(http->port());
      ASSERT_TRUE(client.send(post("/", std::string(bytes, 'x'))));
      ASSERT_TRUE(soon(asked, ++sent));
    }
    EXPECT_TRUE(soon(gone, sent)) << bytes;
    gone = sent;
  }
}

TEST(Http, AServerThatEndsKeepsNoRequest) {
  std::atomic<int> asked{0};
  std::weak_ptr<Exchange> unanswered;
  auto http = std::move(*HttpServer::start({}, [&](const std::shared_ptr<Exchange>& e) {
    e->on_gone([e] {});  // as a call does that refers to its exchange
    unanswered = e;
    ++asked;
  }));
  Client client(http->port());
  ASSERT_TRUE(client.send(post("/", "x")));
  for (int k = 0; k < 30000 && asked == 0; ++k) usleep(1000);
  ASSERT_EQ(asked, 1);
  http.reset();
  EXPECT_TRUE(unanswered.expired());
}

// The requests of a handler that answers when it is told to.
struct Held {
  std::mutex mutex;
  std::vector<std::shared_ptr<Exchange>> open;
  std::atomic<int> asked{0}, gone{0};
  void take(const std::shared_ptr<Exchange>& e) {
    e->on_gone([this] { ++gone; });
    const std::lock_guard<std::mutex> lock(mutex);
    open.push_back(e);
    ++asked;
  }
  bool soon(const std::atomic<int>& count, int want) {
    for (int k = 0; k < 30000 && count < want; ++k) usleep(1000);
    return count == want;
  }
  void answer(size_t k, const std::string& text) {
    const std::lock_guard<std::mutex> lock(mutex);
    HttpReply reply;
    reply.text = text;
    open[k]->reply(std::move(reply));
  }
};

TEST(Http, AClientThatSendsNoMoreIsAnswered) {
  Held held;
  const auto http = std::move(*HttpServer::start({}, [&](const auto& e) { held.take(e); }));
  Client client(http->port());
  ASSERT_TRUE(client.send(get("/first") + get("/second") + "GET /third HTTP/1.1\r\n"));  // the last is not whole
  ASSERT_TRUE(held.soon(held.asked, 1));
  client.end();
  EXPECT_EQ(client.read().first, 100) << "an interim response, to see whether it is there";
  held.answer(0, "one");
  EXPECT_EQ(client.read(), std::pair(200, std::string("one")));
  ASSERT_TRUE(held.soon(held.asked, 2));
  held.answer(1, "two");
  EXPECT_EQ(client.read(), std::pair(200, std::string("two")));
  EXPECT_EQ(client.read(), std::pair(0, std::string())) << "what was not whole has no answer";
  EXPECT_EQ(held.gone, 0);
  EXPECT_EQ(held.asked, 2);
}

TEST(Http, AnOldClientHearsThatItsConnectionStays) {
  Held held;
  const auto http = std::move(*HttpServer::start({}, [&](const auto& e) { held.take(e); }));
  Client client(http->port());
  ASSERT_TRUE(client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
  ASSERT_TRUE(held.soon(held.asked, 1));
  held.answer(0, "one");
  EXPECT_EQ(client.read().second, "one");
  EXPECT_NE(client.head.find("\r\nConnection: keep-alive"), std::string::npos) << client.head;
  ASSERT_TRUE(client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
  ASSERT_TRUE(held.soon(held.asked, 2));
  client.end();  // an old client gets no interim response, by which it could be seen that the end was heard
  Client behind(http->port());
  ASSERT_TRUE(behind.send(get("/")));
  ASSERT_TRUE(held.soon(held.asked, 3)) << "heard by the one thread there is, after that end";
  held.answer(1, "two");
  EXPECT_EQ(client.read(), std::pair(200, std::string("two")));
  EXPECT_NE(client.head.find("close"), std::string::npos) << client.head;
  EXPECT_EQ(client.read().first, 0);
  Client plain(http->port());
  ASSERT_TRUE(plain.send("GET / HTTP/1.0\r\n\r\n"));
  ASSERT_TRUE(held.soon(held.asked, 4));
  held.answer(3, "three");
  EXPECT_EQ(plain.read().second, "three");
  EXPECT_NE(plain.head.find("close"), std::string::npos) << plain.head;
  Client usual(http->port());
  ASSERT_TRUE(usual.send(get("/")));
  ASSERT_TRUE(held.soon(held.asked, 5));
  held.answer(4, "four");
  EXPECT_EQ(usual.read().second, "four");
  EXPECT_EQ(usual.head.find("Connection"), std::string::npos) << usual.head;
}

}  // namespace
}  // namespace peri::serve
