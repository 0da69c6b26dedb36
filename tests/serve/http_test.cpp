// The whole front end in one process, its sockets too: requests, cancels, reloads, wrong keys from many threads at
// once. Runs under the sanitizers too (tools/sanitize/serve.py).
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "base/rng.hpp"
#include "serve/health/health.hpp"
#include "serve/kserve/api.hpp"
#include "tests/serve/fake_servable.hpp"
#include "tests/serve/http_client.hpp"

namespace peri::serve {
namespace {

namespace fs = std::filesystem;

// A repository of fakes behind HTTP on a free port.
class Front {
 public:
  explicit Front(std::vector<AccessKey> keys = {}, int threads = 2) : access_(std::move(keys)) {
    root_ = fs::path(::testing::TempDir()) / ("peri_http_test_" + std::to_string(getpid()));
    fs::remove_all(root_);
    for (const char* name : {"m", "n"}) {
      fs::create_directories(root_ / name / "1");
      EXPECT_TRUE(write_file_atomic((root_ / name / "1" / "model.engine").string(), "x").ok());
      EXPECT_TRUE(write_file_atomic((root_ / name / "config.pbtxt").string(),
                                    "max_batch_size: 4\ndynamic_batching { max_queue_delay_microseconds: 100 }\n")
                      .ok());
    }
    RepositoryOptions options;
    options.root = root_.string();
    options.control = Control::kExplicit;
    options.at_start = {"*"};
    repository = std::make_unique<Repository>(options, [](const LoadOrder&, const auto&) -> Result<Loaded> {
      Loaded out;
      out.servable = std::make_shared<FakeServable>(2);
      out.batch_sizes = {1, 2, 3, 4};
      out.canary.inputs = {Tensor::of_f32({1, 2}, std::vector<float>{1, 2})};
      out.canary.outputs = {Tensor::of_f32({1, 2}, std::vector<float>{2, 4})};
      return out;
    });
    ApiOptions api_options;
    api_options.access = &access_;
    api_options.public_management = access_.open();
    api = std::make_unique<Api>(*repository, api_options);
    HealthOptions health_options;
    health_options.canary_every_ns = 1'000'000;
    health_options.look_ms = 1;
    health = std::make_unique<Health>(*repository, health_options);
    HttpOptions http_options;
    http_options.threads = threads;
    http = std::move(*HttpServer::start(http_options, [this](const std::shared_ptr<Exchange>& e) { api->handle(e); }));
    EXPECT_TRUE(repository->start().ok());
    repository->wait_started();
    health->start();
  }
  ~Front() {
    api->drain();
    http->drain();
    while (api->open() > 0) usleep(1000);
    http.reset();
    health.reset();
    api.reset();
    repository.reset();
    fs::remove_all(root_);
  }
  std::unique_ptr<Repository> repository;
  std::unique_ptr<Api> api;
  std::unique_ptr<Health> health;
  std::unique_ptr<HttpServer> http;

 private:
  Access access_;
  fs::path root_;
};

std::string infer(const std::string& model, int64_t v, const std::string& fields = "") {
  return post("/v2/models/" + model + "/infer",
              R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[)" + std::to_string(v) + "]}]}",
              fields);
}

TEST(Http, AClientThatWasToldToStayIsAnsweredWhenADrainComesBetween) {
  const std::string large(size_t{32} << 20, 'x');  // no socket's buffers hold it: it is under way when the drain comes
  auto http = std::move(*HttpServer::start({}, [&](const std::shared_ptr<Exchange>& e) {
    HttpReply reply;
    reply.text = e->request().target == "/large" ? large : "small";
    e->reply(std::move(reply));
  }));
  Client client(http->port());
  ASSERT_TRUE(client.send(get("/large") + get("/small")));
  ASSERT_TRUE(client.hears()) << "the first answer's head is written";
  http->drain();
  const auto first = client.read();
  EXPECT_EQ(first.first, 200);
  EXPECT_EQ(first.second.size(), large.size());
  EXPECT_EQ(client.head.find("close"), std::string::npos) << client.head;
  EXPECT_EQ(client.read(), std::pair(200, std::string("small")));
  EXPECT_NE(client.head.find("close"), std::string::npos) << client.head;
  EXPECT_EQ(client.read().first, 0) << "the server ends what it was told to drain";
}

TEST(Http, ManyThreadsCancelsAndReloads) {
  Front front;
  std::atomic<int> right{0}, wrong{0}, gone{0};
  std::vector<std::thread> threads;
  constexpr int kEach = 250;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Rng rng(static_cast<uint64_t>(t));
      auto client = std::make_unique<Client>(front.http->port());
      for (int k = 0; k < kEach; ++k) {
        const int64_t v = 1 + rng.below(1000);
        if (!client->send(infer(t % 2 ? "m" : "n", v))) ++wrong;
        if (rng.below(4) == 0) {
          client = std::make_unique<Client>(front.http->port());  // away before the answer
          ++gone;
          continue;
        }
        const auto [status, body] = client->read();
        const std::string want = "\"data\":[" + std::to_string(2 * v);
        ++(status == 200 && body.find(want) != std::string::npos ? right : wrong);
        if (status != 200) ADD_FAILURE() << status << " " << body;
      }
    });
  threads.emplace_back([&] {
    Client client(front.http->port());
    for (int k = 0; k < 40; ++k) {
      client.send(post("/v2/repository/models/m/load", ""));
      EXPECT_EQ(client.read().first, 200);
      client.send(get(k % 2 ? "/v2/models/stats" : "/v2/models/m/config"));
      EXPECT_EQ(client.read().first, 200);
      (void)front.api->metrics();
    }
  });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(right + gone, 4 * kEach);
  while (front.api->open() > 0) usleep(1000);
  Client client(front.http->port());
  client.send(get("/v2/health/ready"));
  EXPECT_EQ(client.read().first, 200);
}

// Who drains ends the server when nothing is open: no reply may come after that.
TEST(Http, ARequestIsOpenUntilItsReplyWasHandedOver) {
  struct Asking final : Exchange {
    explicit Asking(const Api& a) : api(a) {
      asked.method = "GET";
      asked.target = "/v2";
    }
    const HttpRequest& request() const override { return asked; }
    void reply(HttpReply) override { open = api.open(); }
    void on_gone(std::function<void()>) override {}
    const Api& api;
    HttpRequest asked;
    int64_t open = -1;
  };
  Front front;
  const auto asking = std::make_shared<Asking>(*front.api);
  front.api->handle(asking);
  EXPECT_EQ(asking->open, 1);
  EXPECT_EQ(front.api->open(), 0);
}

TEST(Http, KeysOnEveryPathButLiveness) {
  Front front({{"the-right-key", "ann", 0, 0}, {"a-slow-key", "bob", 1, 2}});
  const char* const paths[] = {"/v2",
                               "/v2/health/ready",
                               "/v2/models/m",
                               "/v2/models/m/config",
                               "/v2/models/m/stats",
                               "/v2/models/m/ready",
                               "/v2/models/stats",
                               "/v1/models",
                               "/",
                               "/metrics",
                               "/v2/health/live/../ready",
                               "/v2/health/live2"};
  Client client(front.http->port());
  client.send(get("/v2/health/live"));
  EXPECT_EQ(client.read().first, 200);
  for (const char* path : paths) {
    client.send(get(path));
    EXPECT_EQ(client.read().first, 401) << path;
    EXPECT_NE(client.head.find("WWW-Authenticate: Bearer"), std::string::npos);
  }
  for (const char* path : {"/v2/models/m/infer", "/v2/repository/index", "/v2/repository/models/m/unload",
                           "/v2/health/live/x", "/v1/embeddings", "/v2/models/m/generate"}) {
    client.send(post(path, "{}", "Authorization: Bearer the-wrong-key\r\n"));
    EXPECT_EQ(client.read().first, 401) << path;
  }
  const std::string key = "Authorization: Bearer the-right-key\r\n", slow = "Authorization: Bearer a-slow-key\r\n";
  client.send(infer("m", 3, key));
  EXPECT_EQ(client.read().first, 200);
  client.send(post("/v2/repository/models/m/unload", "", key));
  EXPECT_EQ(client.read().first, 403) << "models are managed elsewhere";
  int refused = 0;
  for (int k = 0; k < 6; ++k) {
    client.send(infer("m", 3, slow));
    const int status = client.read().first;
    refused += status == 429 ? 1 : 0;
    if (status == 429) EXPECT_NE(client.head.find("Retry-After: 1"), std::string::npos);
  }
  EXPECT_GE(refused, 3);
}

TEST(Http, AModelThatAnswersOtherwiseIsNotReady) {
  Front front;
  const auto servable = std::static_pointer_cast<FakeServable>(
      std::shared_ptr<runtime::Servable>(front.repository->all()[0], &front.repository->all()[0]->model->servable()));
  const auto state = [&](const std::string& name) {
    for (const IndexRow& row : front.repository->index())
      if (row.name == name) return row.state + " " + row.reason;
    return std::string();
  };
  EXPECT_EQ(state("m"), "READY ");
  servable->factor = 3;
  while (state("m").find("UNAVAILABLE a known question gets another answer") == std::string::npos) usleep(1000);
  Client client(front.http->port());
  client.send(get("/v2/health/ready"));
  EXPECT_EQ(client.read().first, 400);
  client.send(get("/v2/models/n/ready"));
  EXPECT_EQ(client.read().first, 200);
  client.send(get("/v2/health/live"));
  EXPECT_EQ(client.read().first, 200);
  servable->factor = 2;
  while (state("m") != "READY ") usleep(1000);
}

TEST(Http, MemoryThatRunsOutMakesBatchesSmaller) {
  Front front;
  Ram ram{1000, 500};
  std::vector<std::string> said;
  HealthOptions options;
  options.read_memory = [&] { return ram; };
  options.log = [&](const std::string& line) { said.push_back(line); };
  Health health(*front.repository, options);
  health.look_at_memory();
  EXPECT_TRUE(said.empty());
  ram.available_bytes = 80;
  health.look_at_memory();
  EXPECT_EQ(health.memory_alert(), MemoryAlert::kHigh);
  ram.available_bytes = 10;
  for (int k = 0; k < 5; ++k) health.look_at_memory();
  EXPECT_EQ(health.memory_alert(), MemoryAlert::kFull);
  ram.available_bytes = 500;
  health.look_at_memory();
  EXPECT_EQ(health.memory_alert(), MemoryAlert::kNone);
  ASSERT_EQ(said.size(), 3u) << "each change once";
  EXPECT_NE(said[1].find("99 %"), std::string::npos) << said[1];
}

TEST(Http, MemoryOfADeviceIsWatchedToo) {
  Front front;
  std::map<std::string, Ram> devices = {{"cuda:0", {1000, 400}}, {"cuda:1", {1000, 300}}};
  std::vector<std::string> said;
  HealthOptions options;
  options.read_memory = [] { return Ram{1000, 500}; };
  options.read_devices = [&] { return devices; };
  options.log = [&](const std::string& line) { said.push_back(line); };
  Health health(*front.repository, options);
  health.look_at_memory();
  EXPECT_EQ(health.memory_alert(), MemoryAlert::kNone);
  devices["cuda:1"].available_bytes = 50;
  health.look_at_memory();
  EXPECT_EQ(health.memory_alert(), MemoryAlert::kHigh);
  devices["cuda:0"].available_bytes = 20;
  health.look_at_memory();
  EXPECT_EQ(health.memory_alert(), MemoryAlert::kFull);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_NE(said[0].find("memory of cuda:1: 95 %"), std::string::npos) << said[0];
  EXPECT_NE(said[1].find("memory of cuda:0: 98 %"), std::string::npos) << said[1];
}

}  // namespace
}  // namespace peri::serve
