// The requests of a run are made before it begins, so that the client adds as little work as possible.
#include <algorithm>

#include "base/json.hpp"
#include "serve/load/reply_parser.hpp"
#include "serve/load/wanted.hpp"

namespace peri::serve {
namespace {

class HttpWire final : public Wire {
 public:
  explicit HttpWire(std::shared_ptr<Turning<HttpRequestText>> requests) : requests_(std::move(requests)) {
    parser_.body = [this](std::string_view piece) {
      if (parser_.status() != 200)
        body_.append(piece.substr(0, kMaxBody - std::min(kMaxBody, body_.size())));
      else if (!asked_->wanted.empty())
        body_ += piece;
      return true;
    };
  }
  void begin() override { parser_.begin(); }
  std::string_view ask() override {
    parser_.begin();
    body_.clear();
    asked_ = &requests_->next();
    return asked_->text;
  }
  Heard hear(std::string_view bytes) override {
    size_t taken = 0;
    const ReplyParser::Found found = parser_.put(bytes, &taken);
    if (found == ReplyParser::Found::kMore) return Heard::kMore;
    return found == ReplyParser::Found::kWhole && taken == bytes.size() ? Heard::kAnswer : Heard::kBad;
  }
  std::string failure() const override {
    return parser_.status() == 200 ? "" : "status " + std::to_string(parser_.status());
  }
  // KServe v2 tells an error as {"error": "..."}; what stands before a server, such as a proxy, tells any text.
  std::string said() const override {
    const Result<Json> json = parse_json(body_);
    const Json* const error = json.ok() ? json->find("error") : nullptr;
    const auto words = error ? error->as_string() : Result<std::string_view>(std::string_view(body_));
    return words.ok() ? std::string(words->substr(0, kMaxSaid)) : "";
  }
  std::string wrong() const override {
    return asked_->wanted.empty() ? "" : http_differs(asked_->wanted, body_, parser_.json_bytes());
  }
  bool keep_open() const override { return parser_.keep_alive(); }

 private:
  static constexpr size_t kMaxBody = 4096;
  const std::shared_ptr<Turning<HttpRequestText>> requests_;
  const HttpRequestText* asked_ = nullptr;  // the last request
  ReplyParser parser_;
  std::string body_;  // of a failure, its first bytes; of an answer that is compared, all
};

std::string model_path(const LoadSubject& subject) {
  std::string out = subject.endpoint.path + "/v2/models/" + subject.model;
  return subject.version.empty() ? out : out + "/versions/" + subject.version;
}
}  // namespace

static std::string request_with(const LoadSubject& subject, const std::vector<LoadTensor>& all) {
  JsonWriter w;
  std::string tensors;
  w.begin_object().key("inputs").begin_array();
  for (const LoadTensor& t : all) {
    w.begin_object().field("name", t.name).field("datatype", t.type).key("shape").begin_array();
    for (const int64_t d : t.dims) w.value(d);
    w.end_array().key("parameters").begin_object();
    w.field("binary_data_size", static_cast<uint64_t>(t.bytes.size())).end_object().end_object();
    tensors += t.bytes;
  }
  w.end_array().key("parameters").begin_object().field("binary_data_output", true).end_object().end_object();
  const std::string head = w.take();
  std::string out =
      "POST " + model_path(subject) + "/infer HTTP/1.1\r\n" + subject.endpoint.fields() +
      "Content-Type: application/octet-stream\r\nInference-Header-Content-Length: " + std::to_string(head.size()) +
      "\r\nContent-Length: " + std::to_string(head.size() + tensors.size()) + "\r\n\r\n";
  return out + head + tensors;
}

Result<std::vector<HttpRequestText>> http_requests(const LoadSubject& subject, std::string_view json,
                                                   LoadFacts* facts) {
  PERI_ASSIGN(auto all, requests_of(subject, json));
  if (facts) *facts = facts_of(all);
  std::vector<HttpRequestText> out;
  for (LoadRequest& r : all) out.push_back({request_with(subject, r.inputs), std::move(r.wanted)});
  return out;
}

Result<WireMaker> http_wire(const LoadSubject& subject, LoadFacts* facts) {
  PERI_ASSIGN(const HttpAnswer said, http_ask(subject.endpoint, "GET", model_path(subject)));
  if (said.status == 401) return asks_for_key(subject.endpoint);
  if (said.status != 200)
    return invalid("the server knows no model '%s' that is ready: status %d, %s", subject.model.c_str(), said.status,
                   said.body.substr(0, 300).c_str())
        .in_file(subject.endpoint.text());
  auto made = http_requests(subject, said.body, facts);
  if (!made.ok() && !made.error().file.empty()) return std::move(made).error();
  if (!made.ok()) return std::move(made).error().in_file(subject.endpoint.text());
  const auto requests = std::make_shared<Turning<HttpRequestText>>(std::move(*made));
  return WireMaker([requests, where = subject.endpoint]() -> std::unique_ptr<Wire> {
    auto made = std::make_unique<HttpWire>(requests);
    return where.secure ? over_tls(std::move(made), where, "http/1.1") : std::move(made);
  });
}

}  // namespace peri::serve
