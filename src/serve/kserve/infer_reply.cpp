// Members are in Triton's order.
#include "serve/kserve/infer_reply.hpp"

#include <algorithm>

#include "base/utf8.hpp"
#include "serve/kserve/datatype.hpp"

namespace peri::serve {

static void write_elements(const Tensor& t, JsonWriter& w) {
  w.begin_array();
  const DType dtype = t.dtype();
  for (int64_t k = 0; k < t.numel(); ++k) {
    if (dtype == DType::kString)
      w.value(t.string_values()[static_cast<size_t>(k)]);
    else if (dtype == DType::kBool)
      w.value(t.i64(k) != 0);
    else if (dtype == DType::kU64)
      w.value(static_cast<uint64_t>(t.i64(k)));
    else if (is_integer(dtype))
      w.value(t.i64(k));
    else
      w.number(t.f64(k));
  }
  w.end_array();
}

// JSON cannot hold texts that are not UTF-8.
static Status check_texts(const std::string& output, const Tensor& t) {
  if (t.dtype() != DType::kString || std::ranges::all_of(t.string_values(), utf8_valid)) return Ok{};
  return invalid("output '%s' holds bytes that are not UTF-8, which JSON cannot carry", output.c_str())
      .advise("ask for it in binary: \"parameters\":{\"binary_data\":true} of the output");
}

// Strings, each preceded by its length.
static std::shared_ptr<std::string> byte_strings(const Tensor& t) {
  auto out = std::make_shared<std::string>();
  for (const std::string& s : t.string_values()) {
    for (int k = 0; k < 4; ++k) out->push_back(static_cast<char>(s.size() >> (8 * k) & 255));
    out->append(s);
  }
  return out;
}

HttpReply::Piece output_bytes(const Tensor& t) {
  if (t.dtype() == DType::kString) {
    const auto bytes = byte_strings(t);
    return {std::as_bytes(std::span(*bytes)), bytes};
  }
  const auto kept = std::make_shared<Tensor>(t);
  return {kept->bytes(), kept};
}

Result<HttpReply> infer_reply(const std::string& model, const std::string& version, const InferRequest& request,
                              std::span<const plan::Port> ports, std::vector<Tensor> outputs) {
  HttpReply reply;
  JsonWriter w;
  w.begin_object();
  if (!request.id.empty()) w.field("id", request.id);
  w.field("model_name", model).field("model_version", version);
  w.key("outputs").begin_array();
  for (const InferRequest::Wanted& wanted : request.outputs) {
    const plan::Port& port = ports[wanted.port];
    const Tensor& t = outputs[wanted.port];
    const std::string_view type = datatype_name(t.dtype());
    if (type.empty())
      return unsupported("output '%s' is of a type that this protocol has no name for", port.name.c_str());
    w.begin_object().field("name", port.name).field("datatype", type).key("shape").begin_array();
    for (const int64_t d : t.dims()) w.value(d);
    w.end_array();
    if (!wanted.binary) {
      PERI_TRY(check_texts(port.name, t));
      w.key("data");
      write_elements(t, w);
    } else {
      HttpReply::Piece piece = output_bytes(t);
      w.key("parameters")
          .begin_object()
          .field("binary_data_size", static_cast<int64_t>(piece.bytes.size()))
          .end_object();
      if (!piece.bytes.empty()) reply.pieces.push_back(std::move(piece));
      reply.json_bytes = 0;
    }
    w.end_object();
  }
  w.end_array().end_object();
  reply.text = w.take();
  if (reply.json_bytes) {
    reply.json_bytes = reply.text.size();
    reply.content_type = "application/octet-stream";
  }
  return reply;
}

}  // namespace peri::serve
