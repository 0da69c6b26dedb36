// Messages of KServe v2 are few and flat: this file encodes and decodes the needed fields itself.
#include "base/json.hpp"
#include "serve/load/http2.hpp"
#include "serve/load/sequence.hpp"
#include "serve/load/wanted.hpp"

namespace peri::serve {
namespace {

constexpr std::string_view kService = "/inference.GRPCInferenceService/";
constexpr uint64_t kMaxMetadata = 16 << 20;
constexpr size_t kPrefix = 5;  // before each message of a call

void put_varint(uint64_t v, std::string* out) {
  for (; v >= 128; v /= 128) out->push_back(static_cast<char>(v % 128 + 128));
  out->push_back(static_cast<char>(v));
}
void put_bytes(int field, std::string_view bytes, std::string* out) {
  put_varint(static_cast<uint64_t>(field) << 3 | 2, out);
  put_varint(bytes.size(), out);
  *out += bytes;
}

bool take_varint(std::string_view* in, uint64_t* v) {
  *v = 0;
  for (int shift = 0; shift < 64 && !in->empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(in->front());
    in->remove_prefix(1);
    *v |= uint64_t{byte & 127u} << shift;
    if (byte < 128) return true;
  }
  return false;
}
// A field: its number, and its bytes or value. False: not a valid message.
struct Field {
  uint64_t number = 0, value = 0;
  std::string_view bytes = {};
};
bool take_field(std::string_view* in, Field* out) {
  uint64_t tag = 0;
  if (!take_varint(in, &tag)) return false;
  *out = {tag >> 3};
  if (tag % 8 == 0) return take_varint(in, &out->value);
  uint64_t size = tag % 8 == 1 ? 8 : 4;
  if (tag % 8 == 2 && !take_varint(in, &size)) return false;
  if ((tag % 8 != 1 && tag % 8 != 2 && tag % 8 != 5) || size > in->size()) return false;
  out->bytes = in->substr(0, size);
  in->remove_prefix(size);
  return true;
}

// Writes one input or output of the metadata as JSON.
bool add_port(std::string_view in, JsonWriter* w) {
  std::string name, type;
  std::vector<int64_t> dims;
  for (Field f; !in.empty();) {
    if (!take_field(&in, &f)) return false;
    if (f.number == 1) name = f.bytes;
    if (f.number == 2) type = f.bytes;
    if (f.number == 3 && f.bytes.empty()) dims.push_back(static_cast<int64_t>(f.value));
    if (f.number == 3)
      for (uint64_t d = 0; !f.bytes.empty(); dims.push_back(static_cast<int64_t>(d)))
        if (!take_varint(&f.bytes, &d)) return false;
  }
  w->begin_object().field("name", name).field("datatype", type).key("shape").begin_array();
  for (const int64_t d : dims) w->value(d);
  w->end_array().end_object();
  return true;
}

// Converts ModelMetadataResponse to the JSON of the same HTTP request. Errors: kInvalid.
Result<std::string> metadata_json(std::string_view in) {
  JsonWriter w;
  w.begin_object();
  for (const auto& [key, number] : {std::pair{"inputs", 4u}, std::pair{"outputs", 5u}}) {
    w.key(key).begin_array();
    std::string_view rest = in;
    for (Field f; !rest.empty();)
      if (!take_field(&rest, &f) || (f.number == number && !add_port(f.bytes, &w)))
        return invalid("the server's metadata of the model is not a message of KServe v2");
    w.end_array();
  }
  return w.end_object().take();
}

// An output of ModelInferResponse: its name and type.
bool read_output(std::string_view in, AnswerTensor* out) {
  for (Field f; !in.empty();) {
    if (!take_field(&in, &f)) return false;
    if (f.number == 1) out->name = f.bytes;
    if (f.number == 2) out->type = f.bytes;
  }
  return true;
}

// The beginning of every message about the model: its name and version.
std::string named_message(const LoadSubject& subject) {
  std::string out;
  put_bytes(1, subject.model, &out);
  if (!subject.version.empty()) put_bytes(2, subject.version, &out);
  return out;
}

// An entry of the parameters, with the value of this field of InferParameter: 1: bool, 2: int64.
void put_parameter(std::string_view name, int field, uint64_t value, std::string* out) {
  std::string choice, entry;
  put_varint(static_cast<uint64_t>(field) << 3, &choice);
  put_varint(value, &choice);
  put_bytes(1, name, &entry);
  put_bytes(2, choice, &entry);
  put_bytes(4, entry, out);
}

// `step`: of the sequence that it is of; null: of none.
std::string infer_message(const LoadSubject& subject, const std::vector<LoadTensor>& tensors,
                          const LoadStep* step = nullptr) {
  std::string out = named_message(subject);
  if (step) {
    put_parameter("sequence_id", 2, step->id, &out);
    put_parameter("sequence_start", 1, step->start, &out);
    put_parameter("sequence_end", 1, step->end, &out);
  }
  for (const LoadTensor& t : tensors) {
    std::string input, dims;
    put_bytes(1, t.name, &input);
    put_bytes(2, t.type, &input);
    for (const int64_t d : t.dims) put_varint(static_cast<uint64_t>(d), &dims);
    if (!dims.empty()) put_bytes(3, dims, &input);
    put_bytes(5, input, &out);
  }
  for (const LoadTensor& t : tensors) put_bytes(7, t.bytes, &out);
  return out;
}

std::shared_ptr<const GrpcRequest> call_of(const Endpoint& where, std::string_view method, std::string_view message,
                                           std::vector<LoadTensor> wanted = {}) {
  GrpcRequest out = grpc_request(where, std::string(kService).append(method), message);
  out.wanted = std::move(wanted);
  return std::make_shared<const GrpcRequest>(std::move(out));
}
}  // namespace

// Whether the model's configuration says that it is stateful; a server that has none to show has no such models.
static bool takes_sequences(const LoadSubject& subject) {
  constexpr uint64_t kConfig = 1, kSequenceBatching = 13;  // of ModelConfigResponse, of ModelConfig
  Http2Wire wire(call_of(subject.endpoint, "ModelConfig", named_message(subject)), kMaxMetadata);
  wire.keep_answer();
  if (!talk_once(subject.endpoint, wire, 10000).ok() || !wire.failure().empty() || wire.answer().size() < kPrefix)
    return false;
  std::string_view in = std::string_view(wire.answer()).substr(kPrefix);
  Field f;
  while (!in.empty() && take_field(&in, &f))
    if (f.number == kConfig) {
      Field inner;
      for (std::string_view config = f.bytes; !config.empty() && take_field(&config, &inner);)
        if (inner.number == kSequenceBatching) return true;
    }
  return false;
}

// `next`: the content of each call. `checked`: answers are compared.
static std::unique_ptr<Wire> wire_of(std::function<std::shared_ptr<const GrpcRequest>()> next, bool checked,
                                     const Endpoint& at) {
  auto calls = std::make_unique<Http2Wire>(std::move(next), UINT64_MAX);
  if (checked) calls->keep_answer();
  std::unique_ptr<Wire> made = std::move(calls);
  if (at.secure) made = over_tls(std::move(made), at, "h2");
  return made;
}

std::string grpc_differs(std::span<const LoadTensor> wanted, std::string_view messages) {
  if (messages.size() < kPrefix || messages[0] != 0) return "the answer is not a message of gRPC";
  messages.remove_prefix(kPrefix);
  std::vector<AnswerTensor> got;
  std::vector<std::string_view> raw;
  for (Field f; !messages.empty();) {
    bool good = take_field(&messages, &f);
    if (good && f.number == 5) good = read_output(f.bytes, &got.emplace_back());
    if (good && f.number == 6) raw.push_back(f.bytes);
    if (!good) return "the answer is not a message of KServe v2";
  }
  if (raw.size() != got.size()) return "the answer has outputs without raw_output_contents";
  for (size_t k = 0; k < raw.size(); ++k) got[k].bytes = raw[k];
  return differs(wanted, got);
}

Result<WireMaker> grpc_wire(const LoadSubject& given, LoadFacts* facts) {
  LoadSubject subject = given;
  const std::string asked = named_message(subject);
  Http2Wire wire(call_of(subject.endpoint, "ModelMetadata", asked), kMaxMetadata);
  wire.keep_answer();
  PERI_TRY(talk_once(subject.endpoint, wire, 10000));
  const std::string where = subject.endpoint.text();
  if (wire.failure() == "UNAUTHENTICATED") return asks_for_key(subject.endpoint);
  if (!wire.failure().empty())
    return invalid("the server knows no model '%s' that is ready: %s%s", subject.model.c_str(), wire.failure().c_str(),
                   wire.said().empty() ? "" : (", " + wire.said()).c_str())
        .in_file(where);
  if (wire.answer().size() < kPrefix || wire.answer()[0] != 0)
    return invalid("the server's metadata of the model is not a message of gRPC").in_file(where);
  PERI_ASSIGN(const std::string json, metadata_json(std::string_view(wire.answer()).substr(kPrefix)));
  subject.in_sequences = subject.sequence.length > 0 || takes_sequences(subject);
  auto all = requests_of(subject, json);
  if (!all.ok() && !all.error().file.empty()) return std::move(all).error();
  if (!all.ok()) return std::move(all).error().in_file(where);
  const LoadFacts known = facts_of(*all);
  if (facts) *facts = known;
  constexpr size_t kMaxMessage = size_t{1} << 31;
  for (const LoadRequest& r : *all)
    if (infer_message(subject, r.inputs).size() > kMaxMessage)
      return usage("a request of more than 2 GiB: gRPC has none");
  if (!subject.in_sequences) {
    std::vector<std::shared_ptr<const GrpcRequest>> requests;
    for (LoadRequest& r : *all)
      requests.push_back(
          call_of(subject.endpoint, "ModelInfer", infer_message(subject, r.inputs), std::move(r.wanted)));
    const auto turning = std::make_shared<Turning<std::shared_ptr<const GrpcRequest>>>(std::move(requests));
    return WireMaker([turning, known, at = subject.endpoint] {
      return wire_of([turning] { return turning->next(); }, known.checked, at);
    });
  }
  const auto sequences = sequences_of(subject, *all, facts);
  const auto requests = std::make_shared<const std::vector<LoadRequest>>(std::move(*all));
  return WireMaker([=]() {
    const auto its = std::make_shared<LoadSequence>(sequences);
    const auto next = [=] {
      const LoadStep step = its->next();
      const LoadRequest& r = (*requests)[step.request];
      return call_of(subject.endpoint, "ModelInfer", infer_message(subject, r.inputs, &step),
                     step.repeated ? std::vector<LoadTensor>{} : r.wanted);
    };
    return in_sequence(wire_of(next, known.checked, subject.endpoint), its);
  });
}

}  // namespace peri::serve
