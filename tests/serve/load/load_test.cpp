// The load tool against a server in this process: what was asked, answered, refused and lost is counted as it was; a
// server that falls behind a rate is seen as its clients would see it.
#include "serve/load/load.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/clock.hpp"
#include "base/json.hpp"
#include "serve/http/message.hpp"
#include "serve/load/sequence.hpp"
#include "tests/places.hpp"

namespace peri::serve {
namespace {

constexpr const char* kModel =
    R"({"name":"m","inputs":[{"name":"x","datatype":"FP32","shape":[-1,4]},{"name":"ids","datatype":"INT64","shape":[-1,-1]}]})";

class LoadTest : public testing::Test {
 protected:
  void serve(std::function<HttpReply(uint64_t)> answer) {
    auto made = HttpServer::start({.port = 0}, [this, answer](const std::shared_ptr<Exchange>& e) {
      if (e->request().method == "GET") {
        HttpReply r;
        r.text = kModel;
        return e->reply(std::move(r));
      }
      if (asked_ >= silent_after_) return held_.push_back(e);
      e->reply(answer(asked_++));
    });
    ASSERT_TRUE(made.ok());
    server_ = std::move(*made);
    subject_.endpoint.port = server_->port();
    subject_.model = "m";
    subject_.shapes["ids"] = {3};
    terms_.interval_ns = 100000000;  // a machine that stands still for a while answers in the rest of it
    terms_.warm_up_ns = 0;
    terms_.stability = 1000;  // any three windows agree
  }
  Result<LoadResult> load() {
    PERI_ASSIGN(const WireMaker maker, http_wire(subject_));
    return run_load(subject_.endpoint, maker, terms_);
  }
  std::atomic<uint64_t> asked_{0};
  uint64_t silent_after_ = UINT64_MAX;           // so many answers; then requests wait for ever
  std::vector<std::shared_ptr<Exchange>> held_;  // by the server's thread
  std::unique_ptr<HttpServer> server_;
  LoadSubject subject_;
  LoadTerms terms_;
};

HttpReply reply_of(int status) {
  HttpReply r;
  r.status = status;
  r.text = "{}";
  return r;
}

TEST_F(LoadTest, CountsWhatWasAnswered) {
  serve([](uint64_t n) { return reply_of(n % 4 == 3 ? 503 : n % 4 == 2 ? 400 : 200); });
  terms_.concurrency = 5;
  const auto r = load();
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(r->windows, 3);
  EXPECT_GT(r->ok, 10u);
  EXPECT_EQ(r->errors.size(), 2u);
  EXPECT_NEAR(static_cast<double>(r->errors.at("status 503")), static_cast<double>(r->ok) / 2, 6);
  EXPECT_LE(r->ok + r->failed(), asked_);
  EXPECT_GE(r->latency.count(), r->ok);
  EXPECT_EQ(r->service.count(), r->ok);
  EXPECT_EQ(r->failed_times.count(), r->failed());
  EXPECT_GT(r->failed_times.most(), 0);
  EXPECT_EQ(r->good, r->ok);
}

TEST_F(LoadTest, AsManyRequestsAsWereAskedFor) {
  serve([](uint64_t) { return reply_of(200); });
  terms_.concurrency = 3;
  terms_.count = 50;
  terms_.warm_up_count = 7;
  for (const double rate : {0.0, 2000.0}) {
    asked_ = 0;
    terms_.rate = rate;
    const auto r = load();
    ASSERT_TRUE(r.ok()) << r.error().text();
    EXPECT_EQ(r->ok, 50u);
    EXPECT_EQ(asked_, 57u);
    EXPECT_TRUE(r->stable);
    EXPECT_EQ(r->service.count(), 50u);
  }
}

TEST_F(LoadTest, WhatTheServerSaysOfAFailure) {
  serve([](uint64_t n) {
    HttpReply r = reply_of(n % 3 == 0 ? 200 : n % 3 == 1 ? 400 : 502);
    r.text = n % 3 == 1 ? R"({"error":"no \"x\""})" : n % 3 == 2 ? std::string(10000, 'p') : "{}";
    return r;
  });
  const auto r = load();
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(r->said.size(), 2u);
  EXPECT_EQ(r->error_text("status 400"), "status 400: no \"x\"");
  EXPECT_EQ(r->error_text("status 502"), "status 502: " + std::string(Wire::kMaxSaid, 'p'));
  EXPECT_EQ(r->error_text("timeout"), "timeout");
}

TEST_F(LoadTest, ConnectionsThatEndAreMadeAnew) {
  serve([](uint64_t) {
    HttpReply r = reply_of(200);
    r.close = true;
    return r;
  });
  terms_.concurrency = 3;
  const auto r = load();
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_GT(r->ok, 6u);
  EXPECT_EQ(r->failed(), 0u);
}

TEST_F(LoadTest, AnInterruptedLoadKeepsWhatWasAnswered) {
  serve([](uint64_t) { return reply_of(200); });
  terms_.stop = [&] { return asked_ >= 50; };
  terms_.interval_ns = 60000000000;
  for (const int64_t count : {0, 100000000}) {
    for (const double rate : {0.0, 5000.0}) {
      asked_ = 0;
      terms_.count = count;
      terms_.rate = rate;
      const auto r = load();
      ASSERT_TRUE(r.ok()) << r.error().text();
      EXPECT_TRUE(r->interrupted);
      EXPECT_FALSE(r->stable);
      EXPECT_GT(r->ok, 10u);
      EXPECT_LE(r->ok, asked_);
      EXPECT_EQ(r->service.count(), r->ok);
      EXPECT_GT(r->seconds, 0);
      EXPECT_LT(r->seconds, 50);
    }
  }
  asked_ = 0;
  terms_.warm_up_count = 1000;  // nothing that counts was answered
  const auto nothing = load();
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.error().kind, ErrorKind::kCancelled);
}

TEST_F(LoadTest, EndsWhenTheServerIsGone) {
  terms_.patience_ns = 50000000;
  const int64_t until = now_ns() + 30000000000;
  terms_.stop = [&] { return now_ns() > until; };
  for (const bool counted : {true, false}) {
    serve([](uint64_t) { return reply_of(200); });
    asked_ = 0;
    terms_.count = counted ? 100000000 : 0;
    terms_.interval_ns = 10000000000;
    std::thread ends([&] {
      while (asked_ < 20) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      server_.reset();
    });
    const auto r = load();
    ends.join();
    ASSERT_TRUE(r.ok()) << r.error().text();
    EXPECT_GE(r->ok, 19u) << "what was answered is kept";
    EXPECT_FALSE(r->stable);
    ASSERT_TRUE(r->lost);
    EXPECT_EQ(r->lost->kind, ErrorKind::kIo);
    EXPECT_NE(r->lost->text().find("cannot connect to " + subject_.endpoint.text()), std::string::npos);
    EXPECT_NE(r->lost->text().find("was there before"), std::string::npos);
  }
}

TEST_F(LoadTest, EndsWhenTheServerFallsSilent) {
  const int64_t until = now_ns() + 60000000000;
  for (const uint64_t answered : {20, 0}) {
    silent_after_ = answered;
    asked_ = 0;
    serve([](uint64_t) { return reply_of(200); });
    terms_.patience_ns = 100000000;
    terms_.timeout_ns = 300000000;
    terms_.concurrency = 3;
    terms_.count = 100000000;
    terms_.stop = [&] { return now_ns() > until; };
    const int64_t begin = now_ns();
    const auto r = load();
    const double all_s = static_cast<double>(now_ns() - begin) * 1e-9;
    server_.reset();
    ASSERT_EQ(r.ok(), answered > 0);
    const Error why = r.ok() ? r->lost.value_or(Error()) : r.error();
    EXPECT_EQ(why.kind, ErrorKind::kIo);
    EXPECT_NE(why.text().find(subject_.endpoint.text() + " has sent nothing for "), std::string::npos) << why.text();
    EXPECT_NE(why.text().find("--client-timeout"), std::string::npos);
    if (!r.ok()) continue;
    EXPECT_EQ(r->ok, answered);
    EXPECT_GT(r->errors.at("timeout"), 3u) << "of requests on new connections too";
    EXPECT_FALSE(r->stable);
    EXPECT_LE(r->seconds + 0.6, all_s) << "the silence is not counted";
  }
}

TEST_F(LoadTest, ARateThatIsTooHighIsSeen) {
  serve([](uint64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return reply_of(200);
  });
  terms_.rate = 2000;
  terms_.connections = 1;
  terms_.threshold_ns = 1;
  const auto r = load();
  ASSERT_TRUE(r.ok()) << r.error().text();
  ASSERT_GT(r->ok, 0u);
  EXPECT_GT(r->backlog, r->ok) << "one of ten is answered";
  EXPECT_GT(r->latency.quantile(0.5), 2 * r->service.quantile(0.5)) << "requests wait for those before them";
  EXPECT_EQ(r->good, 0u);
}

TEST_F(LoadTest, FailuresOfTheWay) {
  serve([](uint64_t) { return reply_of(200); });
  subject_.shapes.clear();
  auto r = load();
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().text().find("--shape ids:"), std::string::npos) << r.error().text();
  subject_.shapes = {{"ids", {2, 3}}, {"z", {1}}};
  EXPECT_NE(load().error().text().find("'z'"), std::string::npos);
  subject_.shapes = {{"ids", {2, 3, 4}}};
  EXPECT_EQ(load().error().kind, ErrorKind::kUsage);
  subject_.shapes = {{"ids", {3}}, {"x", {5}}};  // 4 in the model
  EXPECT_NE(load().error().text().find("--shape gives axis 1 of 'x' another size than the model has: expected [-1,4]"),
            std::string::npos);
  subject_.shapes = {{"ids", {3, 7}}};
  subject_.batch = 2;
  subject_.batch_given = true;
  EXPECT_NE(load().error().text().find("--shape gives 'ids' 3 rows, and --batch-size is 2"), std::string::npos);
  EXPECT_EQ(asked_, 0u) << "no request is needed to tell";
  subject_.shapes = {{"ids", {3}}};
  server_.reset();
  EXPECT_EQ(load().error().kind, ErrorKind::kIo);
  terms_.stop = [] { return true; };
  EXPECT_EQ(
      run_load(subject_.endpoint, [] { return std::unique_ptr<Wire>(); }, terms_).error().kind, ErrorKind::kCancelled);
}

TEST(LoadRequest, RowsAreThoseThatAreSent) {
  LoadSubject s;
  s.model = "m";
  s.shapes = {{"ids", {3, 7}}, {"x", {3, 4}}};
  LoadFacts facts;
  ASSERT_TRUE(http_requests(s, kModel, &facts).ok());
  EXPECT_EQ(facts.rows, 3);
  EXPECT_FALSE(facts.checked);
  s.batch = 2;
  s.batch_given = true;
  const auto fixed = http_requests(
      s,
      R"({"name":"m","inputs":[{"name":"x","datatype":"FP32","shape":[3,4]},{"name":"ids","datatype":"INT64","shape":[3,7]}]})");
  ASSERT_FALSE(fixed.ok());
  EXPECT_NE(fixed.error().text().find("--batch-size is for models that take any number of rows"), std::string::npos);
}

TEST(LoadRequest, IsWhatTheProtocolAsksFor) {
  LoadSubject s;
  s.model = "m";
  s.batch = 2;
  s.shapes["ids"] = {3};
  const auto all = http_requests(s, kModel);
  ASSERT_TRUE(all.ok()) << all.error().text();
  ASSERT_EQ(all->size(), 1u);
  const std::string* const made = &(*all)[0].text;
  EXPECT_TRUE(made->starts_with("POST /v2/models/m/infer HTTP/1.1\r\n"));
  const size_t body = made->find("\r\n\r\n") + 4;
  const size_t end = made->find('\0', body);
  const std::string head = made->substr(body, made->rfind('}', end) + 1 - body);
  EXPECT_NE(made->find("Inference-Header-Content-Length: " + std::to_string(head.size())), std::string::npos) << head;
  EXPECT_EQ(made->size() - body - head.size(), 2u * 4 * 4 + 2 * 3 * 8);
  const auto json = parse_json(head);
  ASSERT_TRUE(json.ok()) << head;
  EXPECT_EQ(json->find("inputs")->items()[1].find("shape")->items()[1].as_int().value(), 3);
  EXPECT_EQ(*made, (*http_requests(s, kModel))[0].text) << "the same each time";
  EXPECT_EQ(made->find("Authorization"), std::string::npos);
  const std::string file = std::string(tests::kBuildDir) + "/key-test";
  ASSERT_TRUE(write_file_atomic(file, "abc=\nmore\n").ok());
  ASSERT_TRUE(s.endpoint.read_key(file).ok());
  EXPECT_NE((*http_requests(s, kModel))[0].text.find("\r\nAuthorization: Bearer abc=\r\n"), std::string::npos);
  ASSERT_TRUE(write_file_atomic(file, "a b\n").ok());
  EXPECT_FALSE(s.endpoint.read_key(file).ok());
}

TEST(LoadRequest, HeaderFieldsOfTheUser) {
  LoadSubject s;
  s.model = "m";
  s.shapes["ids"] = {3};
  ASSERT_TRUE(s.endpoint.add_header("X-Tenant:  a b ").ok());
  EXPECT_NE((*http_requests(s, kModel))[0].text.find("\r\nx-tenant: a b\r\n"), std::string::npos);
  for (const char* wrong : {"", "x", ":y", "a b: c", "x: a\r\nHost: b", "Host: b", "Content-Length: 3", "x: \xc3\xa4"})
    EXPECT_FALSE(s.endpoint.add_header(wrong).ok()) << wrong;
  EXPECT_FALSE(s.endpoint.add_header("big: " + std::string(9000, 'x')).ok());
}

TEST(Endpoint, Urls) {
  for (const auto& [url, text] : std::map<std::string, std::string>{{"http://a:81/x/", "a:81/x"},
                                                                    {"a", "a:8000"},
                                                                    {"[::1]:9", "[::1]:9"},
                                                                    {"http://[fe80::1%eth0]:9", "[fe80::1%eth0]:9"},
                                                                    {"a_b-c.d:9", "a_b-c.d:9"},
                                                                    {"unix:/tmp/s", "unix:/tmp/s"}}) {
    const auto e = Endpoint::parse(url, 8000);
    ASSERT_TRUE(e.ok()) << url;
    EXPECT_EQ(e->text(), text);
  }
  for (const char* url : {"",
                          "http://",
                          "a:",
                          "a:0",
                          "a:70000",
                          "a:8x",
                          "grpc://a",
                          "ftp://a",
                          "[::1",
                          "a b",
                          "unix:",
                          "u@a:1",
                          "a,b",
                          "<a>",
                          "a%20b",
                          "{}",
                          "http://a,b:1",
                          "http://[a b]:1",
                          "http://a\tb",
                          "http://\xff"})
    EXPECT_FALSE(Endpoint::parse(url, 8000).ok()) << url;
  for (const bool grpc : {false, true})
    EXPECT_NE(Endpoint::parse("ftp://a", 8000, grpc).error().expected.find("unix:PATH"), std::string::npos);
}

// Its requests, as "id", with '<' at a start and '>' at an end.
std::string step_of(LoadSequence& s) {
  const LoadStep step = s.next();
  return (step.start ? "<" : "") + std::to_string(step.id) + (step.end ? ">" : "");
}

TEST(LoadSequences, OfTwoConnections) {
  const auto all = std::make_shared<LoadSequences>(
      SequenceTerms{.length = 3, .variation = 0, .first_id = 5, .last_id = 7}, std::vector<LoadRequest>(1));
  LoadSequence a(all), b(all);
  const auto goes_on = [](LoadSequence& s, bool well = true) {
    const std::string out = step_of(s);
    s.answered(well);
    return out;
  };
  EXPECT_EQ(goes_on(a), "<5");
  EXPECT_EQ(goes_on(b), "<6");
  EXPECT_EQ(goes_on(a), "5");
  EXPECT_EQ(goes_on(a), "5>");
  EXPECT_FALSE(a.open());
  EXPECT_EQ(goes_on(a, false), "<7");  // what failed is given up
  EXPECT_EQ(goes_on(a), "<5");
  EXPECT_EQ(step_of(a), "5");  // and so is what got no answer
  EXPECT_FALSE(a.open());
  EXPECT_EQ(goes_on(a), "<7") << "6 is alive";
  b.last();
  EXPECT_EQ(goes_on(b), "6>");
  EXPECT_EQ(goes_on(b), "<5");
}

TEST(LoadSequences, OfAFileBeginAtTheirFirstRequest) {
  std::vector<LoadRequest> requests(4);  // sequences of three and of one
  requests[1].first = requests[2].first = false;
  const auto steps = [&](int64_t length, size_t count) {
    LoadSequence a(std::make_shared<LoadSequences>(SequenceTerms{.length = length, .variation = 0}, requests));
    std::string out;
    for (size_t k = 0; k < count; ++k) {
      const LoadStep step = a.next();
      out +=
          (step.start ? "<" : "") + std::to_string(step.request) + (step.repeated ? "r" : "") + (step.end ? ">" : "");
      a.answered(k != 4);  // after a failure the next one begins
    }
    return out;
  };
  EXPECT_EQ(steps(0, 8), "<012><3><0<3><01");
  EXPECT_EQ(steps(2, 4), "<01><33r>");
  EXPECT_EQ(LoadSequences(SequenceTerms{}, requests).length(), 2);
}

}  // namespace
}  // namespace peri::serve
