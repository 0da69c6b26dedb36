// Parameters are handled like those of JSON, so that both protocols support the same ones.
#include "serve/grpc/infer_message.hpp"

#include <kserve.pb.h>

#include <algorithm>

#include "serve/kserve/datatype.hpp"
#include "serve/kserve/infer_reply.hpp"
#include "serve/repository/scan.hpp"

namespace peri::serve {

struct InferMessage::Parsed {
  google::protobuf::Arena arena;
  inference::ModelInferRequest* message = nullptr;
  std::vector<Bytes> raw;
  std::shared_ptr<const void> owner;
  bool stream = false;
};

namespace {

constexpr int kRawInputs = inference::ModelInferRequest::kRawInputContentsFieldNumber;
constexpr int kRawOutputs = inference::ModelInferResponse::kRawOutputContentsFieldNumber;
constexpr size_t kCopied = 8192;  // outputs up to this size are copied into the message

using Parameters = google::protobuf::Map<std::string, inference::InferParameter>;

Json json_of(const inference::InferParameter& p) {
  using Case = inference::InferParameter;
  switch (p.parameter_choice_case()) {
    case Case::kBoolParam: return Json(p.bool_param());
    case Case::kInt64Param: return Json(static_cast<int64_t>(p.int64_param()));
    case Case::kUint64Param:
      return p.uint64_param() <= INT64_MAX ? Json(static_cast<int64_t>(p.uint64_param()))
                                           : Json(static_cast<uint64_t>(p.uint64_param()));
    case Case::kDoubleParam: return Json(p.double_param());
    case Case::kStringParam: return Json(p.string_param());
    default: return Json();
  }
}

// {"parameters": {...}}
Result<Json> json_of(const Parameters& parameters) {
  Json::Object members, root;
  for (const auto& [key, value] : parameters) {
    // Clients without an unsigned parameter send the bits of such a number.
    const bool bits = key == "sequence_id" && value.parameter_choice_case() == inference::InferParameter::kInt64Param;
    members.push_back(
        {key, bits && value.int64_param() < 0 ? Json(static_cast<uint64_t>(value.int64_param())) : json_of(value)});
  }
  PERI_ASSIGN(Json inner, Json::object(std::move(members)));
  root.push_back({"parameters", std::move(inner)});
  return Json::object(std::move(root));
}

template <class List>
Result<Tensor> integers(const List& list, DType dtype, std::vector<int64_t> dims) {
  PERI_ASSIGN(Tensor out, Tensor::uninitialized(dtype, std::move(dims)));
  const int bits = dtype_bits(dtype);
  const int64_t low = is_signed(dtype) ? -(int64_t{1} << (bits - 1)) : 0;
  const int64_t high = is_signed(dtype) ? ~low : (int64_t{1} << bits) - 1;
  int64_t at = 0;
  for (const int64_t v : list) {
    if (v < low || v > high)
      return invalid("%lld is out of the range of %s", static_cast<long long>(v),
                     std::string(datatype_name(dtype)).c_str());
    out.set_i64(at++, v);
  }
  return out;
}

template <class List>
Result<Tensor> copied(const List& list, DType dtype, std::vector<int64_t> dims) {
  PERI_ASSIGN(Tensor out, Tensor::uninitialized(dtype, std::move(dims)));
  if (!list.empty()) std::memcpy(out.mutable_data(), list.data(), out.bytes().size());
  return out;
}

// Elements stored in the message's typed fields.
Result<Tensor> tensor_of(const inference::InferTensorContents& c, const plan::Port& port, std::vector<int64_t> dims,
                         int64_t numel) {
  const auto fits = [&](const auto& list, int others) -> Status {
    if (others > 0) return invalid("input '%s' has contents of another type than its own", port.name.c_str());
    if (list.size() != numel)
      return invalid("input '%s' holds %d elements, its shape %lld", port.name.c_str(), list.size(),
                     static_cast<long long>(numel));
    return Ok{};
  };
  const int all = c.bool_contents_size() + c.int_contents_size() + c.int64_contents_size() + c.uint_contents_size() +
                  c.uint64_contents_size() + c.fp32_contents_size() + c.fp64_contents_size() + c.bytes_contents_size();
  const auto take = [&](const auto& list, auto make) -> Result<Tensor> {
    PERI_TRY(fits(list, all - list.size()));
    return of_input(port, make(list, port.dtype, std::move(dims)));
  };
  const auto whole = [](const auto& list, DType t, std::vector<int64_t> d) { return copied(list, t, std::move(d)); };
  const auto ranged = [](const auto& list, DType t, std::vector<int64_t> d) { return integers(list, t, std::move(d)); };
  switch (port.dtype) {
    case DType::kBool: return take(c.bool_contents(), ranged);
    case DType::kI8:
    case DType::kI16: return take(c.int_contents(), ranged);
    case DType::kI32: return take(c.int_contents(), whole);
    case DType::kI64: return take(c.int64_contents(), whole);
    case DType::kU8:
    case DType::kU16: return take(c.uint_contents(), ranged);
    case DType::kU32: return take(c.uint_contents(), whole);
    case DType::kU64: return take(c.uint64_contents(), whole);
    case DType::kF32: return take(c.fp32_contents(), whole);
    case DType::kF64: return take(c.fp64_contents(), whole);
    case DType::kString:
      return take(c.bytes_contents(), [](const auto& list, DType, std::vector<int64_t> d) {
        return Tensor::strings(std::move(d), {list.begin(), list.end()});
      });
    default:
      return invalid("input '%s' is of datatype %s, which is taken in raw_input_contents alone", port.name.c_str(),
                     std::string(datatype_name(port.dtype)).c_str());
  }
}

Result<Tensor> tensor_of(Bytes raw, const std::shared_ptr<const void>& owner, const plan::Port& port,
                         std::vector<int64_t> dims, int64_t numel, const InferLimits& limits) {
  if (port.dtype == DType::kString) {
    PERI_ASSIGN(std::vector<std::string> strings, of_input(port, parse_byte_strings(raw, numel, limits)));
    return Tensor::strings(std::move(dims), std::move(strings));
  }
  PERI_ASSIGN(const int64_t want, dtype_bytes(port.dtype, numel));
  if (static_cast<uint64_t>(want) != raw.size())
    return invalid("input '%s' takes %lld bytes, got %zu", port.name.c_str(), static_cast<long long>(want), raw.size());
  return Tensor::view(port.dtype, std::move(dims), raw, owner);
}
}  // namespace

InferMessage::InferMessage(std::unique_ptr<Parsed> parsed) : parsed_(std::move(parsed)) {}
InferMessage::~InferMessage() = default;

Result<std::unique_ptr<InferMessage>> InferMessage::read(Bytes bytes, std::shared_ptr<const void> owner, bool stream,
                                                         const MessageLimits& limits) {
  auto parsed = std::make_unique<Parsed>();
  parsed->message = google::protobuf::Arena::CreateMessage<inference::ModelInferRequest>(&parsed->arena);
  PERI_ASSIGN(SplitMessage split, split_message(bytes, kRawInputs, limits.parts));
  PERI_TRY(read_message(std::as_bytes(std::span(split.rest)), limits, parsed->message));
  parsed->raw = std::move(split.fields);
  parsed->owner = std::move(owner);
  parsed->stream = stream;
  return std::unique_ptr<InferMessage>(new InferMessage(std::move(parsed)));
}

Result<std::string> model_target(const std::string& name, const std::string& version) {
  if (!plain_name(name)) return usage("Request for unknown model: '%s' is not found", shown_name(name).c_str());
  if (version.empty()) return "/v2/models/" + name;
  if (version.size() > 18 || version.find_first_not_of("0123456789") != std::string::npos)
    return invalid("the version of a model must be a number");
  return "/v2/models/" + name + "/versions/" + version;
}

const std::string& InferMessage::id() const { return parsed_->message->id(); }

Result<std::string> InferMessage::target() const {
  PERI_ASSIGN(std::string out, model_target(parsed_->message->model_name(), parsed_->message->model_version()));
  return out + "/infer";
}

Status InferMessage::read_inputs(std::span<const plan::Port> ports, const InferLimits& limits,
                                 InferRequest* out) const {
  const auto& inputs = parsed_->message->inputs();
  PERI_TRY(check_count(inputs.size(), "inputs", limits));
  out->inputs.resize(ports.size());
  size_t raw = 0;
  for (const auto& input : inputs) {
    size_t at = 0;
    const plan::Port* port = find_port(ports, input.name(), &at);
    if (!port) return invalid("unexpected inference input '%s'", shown_name(input.name()).c_str());
    if (out->inputs[at].defined())
      return invalid("input '%s' is given twice", port->name.c_str()).advise("give it once");
    PERI_ASSIGN(const DType dtype, parse_datatype(input.datatype()));
    if (dtype != port->dtype)
      return invalid("input '%s' is of datatype %s", port->name.c_str(),
                     std::string(datatype_name(port->dtype)).c_str())
          .but_found(input.datatype());
    std::vector<int64_t> dims(input.shape().begin(), input.shape().end());
    PERI_TRY(check_dims(*port, dims));
    PERI_ASSIGN(const int64_t numel, of_input(*port, checked_numel(dims)));
    if (!input.parameters().empty()) {
      PERI_ASSIGN(const Json parameters, json_of(input.parameters()));
      PERI_TRY(check_parameters(parameters));
    }
    const bool typed = input.has_contents();
    for (const std::string& element : input.contents().bytes_contents())
      if (Status fits = check_element(element.size(), limits); !fits.ok())
        return std::move(fits).error().at_node(port->name);
    if (typed && !parsed_->raw.empty())
      return invalid("contents field must not be specified when using raw_input_contents for '%s'", port->name.c_str());
    if (!typed && raw == parsed_->raw.size() && !(parsed_->raw.empty() && numel == 0))
      return invalid("input '%s' has neither contents nor raw_input_contents", port->name.c_str());
    PERI_ASSIGN(out->inputs[at],
                typed || parsed_->raw.empty()
                    ? tensor_of(input.contents(), *port, std::move(dims), numel)
                    : tensor_of(parsed_->raw[raw++], parsed_->owner, *port, std::move(dims), numel, limits));
  }
  for (size_t k = 0; k < ports.size(); ++k)
    if (!out->inputs[k].defined())
      return invalid("expected %zu inputs but got %d: '%s' is missing", ports.size(), inputs.size(),
                     ports[k].name.c_str());
  if (raw < parsed_->raw.size())
    return invalid("%zu raw_input_contents for %d inputs", parsed_->raw.size(), inputs.size());
  return Ok{};
}

Status InferMessage::read_outputs(std::span<const plan::Port> ports, const InferLimits& limits,
                                  InferRequest* out) const {
  const auto& outputs = parsed_->message->outputs();
  PERI_TRY(check_count(outputs.size(), "outputs", limits));
  std::vector<bool> asked(ports.size());
  for (const auto& output : outputs) {
    size_t at = 0;
    if (!find_port(ports, output.name(), &at))
      return invalid("unexpected inference output '%s'", shown_name(output.name()).c_str());
    if (asked[at]) return invalid("output '%s' is asked for twice", ports[at].name.c_str());
    asked[at] = true;
    int64_t classes = 0;
    if (!output.parameters().empty()) {
      PERI_ASSIGN(const Json parameters, json_of(output.parameters()));
      PERI_TRY(check_parameters(parameters));
      PERI_ASSIGN(classes, read_classes(parameters));
    }
    out->outputs.push_back({at, true, classes});
  }
  if (outputs.empty())
    for (size_t k = 0; k < ports.size(); ++k) out->outputs.push_back({k, true});
  return Ok{};
}

Result<InferRequest> InferMessage::parse(std::span<const plan::Port> inputs, std::span<const plan::Port> outputs,
                                         const InferLimits& limits) {
  InferRequest out;
  out.id = parsed_->message->id();
  if (!parsed_->message->parameters().empty()) {
    PERI_ASSIGN(const Json parameters, json_of(parsed_->message->parameters()));
    bool binary = false;
    PERI_TRY(read_parameters(parameters, limits, &binary, &out));
  }
  if (timeout_us_ > 0 && (out.timeout_us == 0 || timeout_us_ < out.timeout_us)) out.timeout_us = timeout_us_;
  PERI_TRY(read_inputs(inputs, limits, &out));
  PERI_TRY(read_outputs(outputs, limits, &out));
  return out;
}

Result<HttpReply> InferMessage::reply(const std::string& model, const std::string& version, const InferRequest& request,
                                      std::span<const plan::Port> ports, std::vector<Tensor> outputs) {
  google::protobuf::Arena arena;
  auto* message = google::protobuf::Arena::CreateMessage<inference::ModelInferResponse>(&arena);
  message->set_model_name(model);
  message->set_model_version(version);
  message->set_id(request.id);
  if (parsed_->stream) (*message->mutable_parameters())["triton_final_response"].set_bool_param(true);
  for (const InferRequest::Wanted& wanted : request.outputs) {
    const Tensor& t = outputs[wanted.port];
    const std::string_view type = datatype_name(t.dtype());
    if (type.empty())
      return unsupported("output '%s' is of a type that this protocol has no name for",
                         ports[wanted.port].name.c_str());
    auto* output = message->add_outputs();
    output->set_name(ports[wanted.port].name);
    output->set_datatype(type.data(), type.size());
    for (const int64_t d : t.dims()) output->add_shape(d);
  }
  HttpReply out;
  if (!message->SerializeToString(&out.text)) return internal_error("an answer could not be written as a message");
  for (const InferRequest::Wanted& wanted : request.outputs) {
    Tensor& t = outputs[wanted.port];
    HttpReply::Piece piece = output_bytes(t);
    // Small outputs are added to the text until the first large one.
    std::string head;
    put_bytes_head(kRawOutputs, piece.bytes.size(), &head);
    if (out.pieces.empty() && piece.bytes.size() <= kCopied) {
      out.text += head;
      out.text.append(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size());
      continue;
    }
    const auto kept = std::make_shared<std::string>(std::move(head));
    out.pieces.push_back({std::as_bytes(std::span(*kept)), kept});
    if (!piece.bytes.empty()) out.pieces.push_back(std::move(piece));
  }
  return out;
}

}  // namespace peri::serve
