// traceparent as its recommendation has it; spans join up, within the request; what waits for a collector is bounded.
#include <gtest/gtest.h>

#include <set>
#include <span>
#include <thread>

#include "base/json.hpp"
#include "serve/http/message.hpp"
#include "serve/observe/observer.hpp"

namespace peri::serve {
namespace {

constexpr const char* kParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

RequestRecord record_of(const TraceContext& trace) {
  RequestRecord r;
  r.method = "POST";
  r.target = "/v2/models/m/infer?x=secret";
  r.model = "m";
  r.version = "1";
  r.status = 200;
  r.trace = trace;
  r.first_byte_ns = 1000;
  r.handled_ns = 2000;
  r.queued_ns = 3000;
  r.began_ns = 4000;
  r.joined_ns = 5000;
  r.ended_ns = 6000;
  r.replied_ns = 7000;
  r.sent_ns = 8000;
  r.batch_rows = 4;
  r.cut = CutReason::kDelay;
  return r;
}

TEST(Traceparent, AsTheRecommendationHasIt) {
  TraceContext c;
  ASSERT_TRUE(read_traceparent(kParent, &c));
  EXPECT_TRUE(c.sampled);
  EXPECT_EQ(c.trace_id[0], 0x0a);
  EXPECT_EQ(c.parent_id[7], 0x31);
  const std::string good = kParent;
  EXPECT_TRUE(read_traceparent(good.substr(0, 53) + "00", &c));
  EXPECT_FALSE(c.sampled);
  EXPECT_TRUE(read_traceparent("01" + good.substr(2) + "-more", &c)) << "of a version to come";
  for (const std::string& bad : std::vector<std::string>{
           std::string(), good.substr(1), good + "-", good + "0", "ff" + good.substr(2), "0x" + good.substr(2),
           "00-" + std::string(32, '0') + good.substr(35), good.substr(0, 36) + std::string(16, '0') + "-01",
           "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", good.substr(0, 53) + "zz",
           "01" + good.substr(2) + "x"})
    EXPECT_FALSE(read_traceparent(bad, &c)) << bad;
}

TEST(Otlp, SpansJoinUp) {
  RequestRecord r = record_of({});
  ASSERT_TRUE(read_traceparent(kParent, &r.trace));
  r.trace.span_id = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto json = parse_json(otlp_json(std::span(&r, 1), 1000000));
  ASSERT_TRUE(json.ok());
  const Json& scope = json->find("resourceSpans")->items()[0].find("scopeSpans")->items()[0];
  const auto& spans = scope.find("spans")->items();
  ASSERT_EQ(spans.size(), 6u);
  EXPECT_EQ(*spans[0].get_string("name"), "infer m");
  EXPECT_EQ(*spans[0].get_string("traceId"), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(*spans[0].get_string("parentSpanId"), "b7ad6b7169203331");
  EXPECT_EQ(*spans[0].get_string("spanId"), "0102030405060708");
  EXPECT_EQ(*spans[0].get_string("startTimeUnixNano"), "1001000");
  EXPECT_EQ(*spans[0].get_string("endTimeUnixNano"), "1008000");
  std::set<std::string> ids = {"0102030405060708"};
  std::string names;
  for (size_t k = 1; k < spans.size(); ++k) {
    names += std::string(*spans[k].get_string("name")) + " ";
    EXPECT_EQ(*spans[k].get_string("parentSpanId"), "0102030405060708");
    EXPECT_TRUE(ids.emplace(*spans[k].get_string("spanId")).second) << "an id of its own";
    if (k > 1) {
      EXPECT_EQ(*spans[k].get_string("startTimeUnixNano"), *spans[k - 1].get_string("endTimeUnixNano"));
    }
  }
  EXPECT_EQ(names, "receive queue batch execute send ");
  const std::string text = otlp_json(std::span(&r, 1), 0);
  EXPECT_NE(text.find(R"("peri.batch.cut","value":{"stringValue":"delay"})"), std::string::npos);
  EXPECT_NE(text.find(R"("peri.batch.rows","value":{"intValue":"4"})"), std::string::npos);
  EXPECT_EQ(text.find("secret"), std::string::npos) << "what stands behind '?' is the client's";
  r.joined_ns = r.queued_ns = r.began_ns = 0;  // refused before it waited
  const auto refused = parse_json(otlp_json(std::span(&r, 1), 0));
  EXPECT_EQ(refused->find("resourceSpans")->items()[0].find("scopeSpans")->items()[0].find("spans")->items().size(),
            3u);
}

TEST(Observer, SendsWhatIsSampledToItsCollector) {
  std::mutex mutex;
  std::vector<std::string> bodies;
  auto collector = HttpServer::start({.port = 0}, [&](const std::shared_ptr<Exchange>& e) {
    const std::lock_guard<std::mutex> lock(mutex);
    bodies.emplace_back(reinterpret_cast<const char*>(e->request().body.data()), e->request().body.size());
    HttpReply r;
    r.status = e->request().target == "/otel/v1/traces" ? 200 : 404;
    e->reply(std::move(r));
  });
  ASSERT_TRUE(collector.ok());
  ObserveOptions o;
  o.otlp_endpoint = "http://127.0.0.1:" + std::to_string((*collector)->port()) + "/otel";
  o.trace_one_in = 3;
  o.seed = 5;
  auto observer = Observer::open(o);
  ASSERT_TRUE(observer.ok());
  int sampled = 0;
  std::set<std::array<uint8_t, 16>> ids;
  for (int k = 0; k < 9; ++k) {
    const TraceContext c = (*observer)->trace("", "/v2");
    if (!c.sampled) continue;
    ++sampled;
    ids.insert(c.trace_id);
    (*observer)->until_sent(record_of(c));  // let go at once
  }
  EXPECT_EQ(sampled, 3);
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_TRUE((*observer)->trace(kParent, "/v2").sampled) << "the caller decides";
  EXPECT_FALSE((*observer)->trace(std::string(kParent).substr(0, 53) + "00", "/v2").sampled);
  observer->reset();  // sends what is left
  size_t spans = 0;
  for (const std::string& b : bodies) {
    const auto json = parse_json(b);
    ASSERT_TRUE(json.ok());
    spans += json->find("resourceSpans")->items()[0].find("scopeSpans")->items()[0].find("spans")->items().size();
  }
  EXPECT_EQ(spans, 18u);
}

TEST(Observer, ACollectorThatIsGoneCostsTracesAndNoMore) {
  ObserveOptions o;
  o.otlp_endpoint = "http://127.0.0.1:1";
  std::atomic<int> said{0};
  o.say = [&](const std::string&) { ++said; };
  auto observer = Observer::open(o);
  ASSERT_TRUE(observer.ok());
  for (int k = 0; k < 20000; ++k) (*observer)->until_sent(record_of((*observer)->trace("", "/v2")));
  while ((*observer)->metrics().find("{result=\"dropped\"} 20000") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(said, 1) << "once for a time without it";
  for (const char* bad : {"grpc://a", "a b", "nan", "127.0.0.1:4318", "http://", "http://a,b"}) {
    o.otlp_endpoint = bad;
    EXPECT_FALSE(Observer::open(o).ok()) << bad;
  }
}

TEST(AccessLine, IsOneObject) {
  RequestRecord r = record_of({});
  r.id = "a\nb";
  const std::string line = access_line(r, 0);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = parse_json(line);
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(*json->get_int("queue_us"), 1);
  EXPECT_EQ(*json->get_int("batch_rows"), 4);
  EXPECT_EQ(*json->get_string("cut"), "delay");
  EXPECT_EQ(*json->get_string("time"), "1970-01-01T00:00:00Z");
  r.began_ns = r.ended_ns;  // refused in the queue: no batch was cut, and nothing ran
  r.joined_ns = r.batch_rows = 0;
  const auto refused = parse_json(access_line(r, 0));
  ASSERT_TRUE(refused.ok());
  EXPECT_TRUE(refused->find("queue_us"));
  for (const char* key : {"run_us", "batch_rows", "cut"}) EXPECT_FALSE(refused->find(key)) << key;
}

}  // namespace
}  // namespace peri::serve
