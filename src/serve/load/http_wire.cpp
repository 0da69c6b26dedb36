// All requests of a run are identical, so that the client adds as little work as possible.
#include <algorithm>

#include "base/dim.hpp"
#include "base/json.hpp"
#include "base/rng.hpp"
#include "base/shell_word.hpp"
#include "serve/load/reply_parser.hpp"
#include "serve/load/wire.hpp"

namespace peri::serve {
namespace {

class HttpWire final : public Wire {
 public:
  explicit HttpWire(std::shared_ptr<const std::string> request) : request_(std::move(request)) {
    parser_.body = [this](std::string_view piece) {
      if (parser_.status() != 200) body_.append(piece.substr(0, kMaxBody - std::min(kMaxBody, body_.size())));
      return true;
    };
  }
  void begin() override { parser_.begin(); }
  std::string_view ask() override {
    parser_.begin();
    body_.clear();
    return *request_;
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
  bool keep_open() const override { return parser_.keep_alive(); }

 private:
  static constexpr size_t kMaxBody = 4096;
  const std::shared_ptr<const std::string> request_;
  ReplyParser parser_;
  std::string body_;  // of a failure, its first bytes
};

// Bytes of an element; 0: BYTES or an unknown type.
size_t bytes_of(std::string_view type) {
  if (type == "BOOL" || type == "INT8" || type == "UINT8") return 1;
  if (type == "INT16" || type == "UINT16" || type == "FP16" || type == "BF16") return 2;
  if (type == "INT32" || type == "UINT32" || type == "FP32") return 4;
  return type == "INT64" || type == "UINT64" || type == "FP64" ? 8 : 0;
}

template <class T>
void put(T v, std::string* out) {
  out->append(reinterpret_cast<const char*>(&v), sizeof v);
}

// Floats in [0, 1); integers 0 and 1, which are valid for any index input.
void add_element(std::string_view type, bool zero, Rng* rng, std::string* out) {
  if (type == "BYTES") {
    put<uint32_t>(8, out);
    for (int k = 0; k < 8; ++k) out->push_back(zero ? '0' : static_cast<char>('a' + rng->below(26)));
  } else if (type == "FP32") {
    put(zero ? 0.f : static_cast<float>(rng->uniform()), out);
  } else if (type == "FP64") {
    put(zero ? 0.0 : rng->uniform(), out);
  } else if (type == "FP16" || type == "BF16") {  // [0.5, 1): constant exponent, any fraction
    const int fraction = type == "FP16" ? 10 : 7;
    const int half = type == "FP16" ? 14 : 126;
    put<uint16_t>(zero ? uint16_t{0} : static_cast<uint16_t>(half << fraction | rng->below(int64_t{1} << fraction)),
                  out);
  } else {
    out->push_back(zero ? '\0' : static_cast<char>(rng->below(2)));
    out->append(bytes_of(type) - 1, '\0');
  }
}

Result<std::vector<int64_t>> dims_of(const LoadSubject& subject, const Json& input, const std::string& name) {
  PERI_ASSIGN(const auto* shape, input.get_array("shape"));
  std::vector<int64_t> dims;
  for (const Json& d : *shape) {
    PERI_ASSIGN(const int64_t v, d.as_int());
    dims.push_back(v);
  }
  const std::vector<int64_t> stated = dims;
  if (!dims.empty() && dims[0] < 0) dims[0] = subject.batch;
  const auto given = subject.shapes.find(name);
  if (given != subject.shapes.end()) {
    const bool without_batch = given->second.size() + 1 == dims.size();
    if (!without_batch && given->second.size() != dims.size())
      return usage("the shape given for '%s' has another rank than the model's", name.c_str())
          .expecting(std::to_string(dims.size()) + " dims, or one less, without the batch")
          .but_found(std::to_string(given->second.size()));
    std::copy(given->second.begin(), given->second.end(), dims.begin() + (without_batch ? 1 : 0));
    for (size_t axis = 0; axis < dims.size(); ++axis)
      if (stated[axis] >= 0 && dims[axis] != stated[axis])
        return usage("--shape gives axis %zu of '%s' another size than the model has", axis, name.c_str())
            .expecting(shape_text(Shape(stated.begin(), stated.end())) + ", -1 for any size")
            .but_found(shape_text(Shape(dims.begin(), dims.end())));
    if (!without_batch && !dims.empty() && stated[0] < 0 && subject.batch_given && dims[0] != subject.batch)
      return usage("--shape gives '%s' %lld rows, and --batch-size is %lld", name.c_str(),
                   static_cast<long long>(dims[0]), static_cast<long long>(subject.batch))
          .advise("leave one of them out");
  }
  for (const int64_t d : dims)
    if (d < 0)
      return usage("the input '%s' has open dims", name.c_str())
          .advise("give them: --shape " + shell_word(name + ":DIM,DIM,..."));
  return dims;
}

Result<bool> is_batched(const Json& input) {
  PERI_ASSIGN(const auto* shape, input.get_array("shape"));
  if (shape->empty()) return false;
  PERI_ASSIGN(const int64_t first, (*shape)[0].as_int());
  return first < 0;
}

std::string model_path(const LoadSubject& subject) {
  std::string out = subject.endpoint.path + "/v2/models/" + subject.model;
  return subject.version.empty() ? out : out + "/versions/" + subject.version;
}
}  // namespace

Result<std::vector<LoadTensor>> tensors_of(const LoadSubject& subject, std::string_view json) {
  PERI_ASSIGN(const Json model, parse_json(json));
  PERI_ASSIGN(const auto* inputs, model.get_array("inputs"));
  Rng rng(subject.seed);
  std::vector<LoadTensor> out;
  auto unused = subject.shapes;
  for (const Json& input : *inputs) {
    PERI_ASSIGN(const std::string_view name, input.get_string("name"));
    PERI_ASSIGN(const std::string_view type, input.get_string("datatype"));
    if (bytes_of(type) == 0 && type != "BYTES")
      return unsupported("the input '%s' is of a type that is not known: %s", std::string(name).c_str(),
                         std::string(type).c_str());
    LoadTensor made{std::string(name), std::string(type), {}, {}};
    PERI_ASSIGN(made.dims, dims_of(subject, input, made.name));
    PERI_ASSIGN(made.batched, is_batched(input));
    unused.erase(std::string(name));
    double elements = 1;
    for (const int64_t d : made.dims) elements *= static_cast<double>(d);
    if (elements > double{1 << 28})
      return usage("the input '%s' would be larger than 2^28 elements", std::string(name).c_str());
    for (int64_t k = 0; k < static_cast<int64_t>(elements); ++k) add_element(type, subject.zeros, &rng, &made.bytes);
    out.push_back(std::move(made));
  }
  if (!unused.empty())
    return usage("--shape names '%s', which is not an input of the model", unused.begin()->first.c_str());
  if (subject.batch_given && subject.batch != 1 &&
      std::none_of(out.begin(), out.end(), [](const LoadTensor& t) { return t.batched; }))
    return usage("--batch-size is for models that take any number of rows, and this one has fixed sizes")
        .but_found(std::to_string(subject.batch))
        .advise("leave it out");
  return out;
}

int64_t rows_of(const std::vector<LoadTensor>& tensors) {
  for (const LoadTensor& t : tensors)
    if (t.batched) return t.dims[0];
  return 1;
}

Result<std::string> http_request(const LoadSubject& subject, std::string_view json, int64_t* rows) {
  PERI_ASSIGN(const std::vector<LoadTensor> all, tensors_of(subject, json));
  if (rows) *rows = rows_of(all);
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

Result<WireMaker> http_wire(const LoadSubject& subject, int64_t* rows) {
  PERI_ASSIGN(const HttpAnswer said, http_ask(subject.endpoint, "GET", model_path(subject)));
  if (said.status == 401) return asks_for_key(subject.endpoint);
  if (said.status != 200)
    return invalid("the server knows no model '%s' that is ready: status %d, %s", subject.model.c_str(), said.status,
                   said.body.substr(0, 300).c_str())
        .in_file(subject.endpoint.text());
  auto made = http_request(subject, said.body, rows);
  if (!made.ok()) return std::move(made).error().in_file(subject.endpoint.text());
  const auto request = std::make_shared<const std::string>(std::move(*made));
  return WireMaker([request, where = subject.endpoint]() -> std::unique_ptr<Wire> {
    auto made = std::make_unique<HttpWire>(request);
    return where.secure ? over_tls(std::move(made), where, "http/1.1") : std::move(made);
  });
}

}  // namespace peri::serve
