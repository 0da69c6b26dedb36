// The requests of a run are made before it begins, so that the client adds as little work as possible.
#include <algorithm>

#include "base/json.hpp"
#include "serve/load/reply_parser.hpp"
#include "serve/load/sequence.hpp"
#include "serve/load/wanted.hpp"

namespace peri::serve {
namespace {

class HttpWire final : public Wire {
 public:
  // `next`: the next request, valid until its next call.
  explicit HttpWire(std::function<const HttpRequestText*()> next) : next_(std::move(next)) {
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
    asked_ = next_();
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
  const std::function<const HttpRequestText*()> next_;
  const HttpRequestText* asked_ = nullptr;  // the last request
  ReplyParser parser_;
  std::string body_;  // of a failure, its first bytes; of an answer that is compared, all
};

std::string model_path(const LoadSubject& subject) {
  std::string out = subject.endpoint.path + "/v2/models/" + subject.model;
  return subject.version.empty() ? out : out + "/versions/" + subject.version;
}
}  // namespace

// `step`: of the sequence that it is of; null: of none.
static std::string request_with(const LoadSubject& subject, const std::vector<LoadTensor>& all,
                                const LoadStep* step = nullptr) {
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
  w.end_array().key("parameters").begin_object().field("binary_data_output", true);
  if (step) w.field("sequence_id", step->id).field("sequence_start", step->start).field("sequence_end", step->end);
  w.end_object().end_object();
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

// Whether the model's configuration says that it is stateful; a server that has none to show has no such models.
static bool takes_sequences(const LoadSubject& subject) {
  const auto said = http_ask(subject.endpoint, "GET", model_path(subject) + "/config");
  if (!said.ok() || said->status != 200) return false;
  const auto json = parse_json(said->body);
  return json.ok() && json->find("sequence_batching");
}

Result<WireMaker> http_wire(const LoadSubject& given, LoadFacts* facts) {
  LoadSubject subject = given;
  PERI_ASSIGN(const HttpAnswer said, http_ask(subject.endpoint, "GET", model_path(subject)));
  if (said.status == 401) return asks_for_key(subject.endpoint);
  if (said.status != 200)
    return invalid("the server knows no model '%s' that is ready: status %d, %s", subject.model.c_str(), said.status,
                   said.body.substr(0, 300).c_str())
        .in_file(subject.endpoint.text());
  subject.in_sequences = subject.sequence.length > 0 || takes_sequences(subject);
  auto all = requests_of(subject, said.body);
  if (!all.ok() && !all.error().file.empty()) return std::move(all).error();
  if (!all.ok()) return std::move(all).error().in_file(subject.endpoint.text());
  if (facts) *facts = facts_of(*all);
  const auto secured = [where = subject.endpoint](std::unique_ptr<Wire> wire) {
    return where.secure ? over_tls(std::move(wire), where, "http/1.1") : std::move(wire);
  };
  if (!subject.in_sequences) {
    std::vector<HttpRequestText> made;
    for (LoadRequest& r : *all) made.push_back({request_with(subject, r.inputs), std::move(r.wanted)});
    const auto requests = std::make_shared<Turning<HttpRequestText>>(std::move(made));
    return WireMaker(
        [requests, secured] { return secured(std::make_unique<HttpWire>([requests] { return &requests->next(); })); });
  }
  const auto sequences = sequences_of(subject, *all, facts);
  const auto requests = std::make_shared<const std::vector<LoadRequest>>(std::move(*all));
  return WireMaker([=]() {
    const auto its = std::make_shared<LoadSequence>(sequences);
    const auto held = std::make_shared<HttpRequestText>();
    return in_sequence(secured(std::make_unique<HttpWire>([=] {
                         const LoadStep step = its->next();
                         const LoadRequest& r = (*requests)[step.request];
                         *held = {request_with(subject, r.inputs, &step)};
                         if (!step.repeated) held->wanted = r.wanted;
                         return static_cast<const HttpRequestText*>(held.get());
                       })),
                       its);
  });
}

}  // namespace peri::serve
