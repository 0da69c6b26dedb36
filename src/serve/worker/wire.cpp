// Members have the names of the structures' fields.
#include "serve/worker/wire.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "serve/kserve/datatype.hpp"
#include "serve/worker/tensor_block.hpp"

namespace peri::serve {

namespace {
constexpr uint64_t kMaxText = uint64_t{64} << 20, kMaxBytes = uint64_t{1} << 32, kStep = 1 << 20;

Status send_all(int socket, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = send(socket, at, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return io_error("closed");
    at += n;
    bytes -= static_cast<size_t>(n);
  }
  return Ok{};
}

Status receive_all(int socket, void* data, size_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = recv(socket, at, bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return io_error("closed");
    at += n;
    bytes -= static_cast<size_t>(n);
  }
  return Ok{};
}

// Allocates memory as bytes arrive, not for the announced size.
template <class Buffer>
Status receive_growing(int socket, uint64_t bytes, Buffer* out) {
  while (out->size() < bytes) {
    const size_t have = out->size();
    out->resize(have + std::min(bytes - have, std::max<uint64_t>(have, kStep)));
    PERI_TRY(receive_all(socket, out->data() + have, out->size() - have));
  }
  return Ok{};
}

template <class List>
void add_numbers(std::string_view key, const List& list, JsonWriter* w) {
  w->key(key).begin_array();
  for (const int64_t v : list) w->value(v);
  w->end_array();
}

Result<std::vector<int64_t>> numbers_of(const Json& json, std::string_view key) {
  std::vector<int64_t> out;
  PERI_ASSIGN(const Json::Array* list, json.get_array(key));
  for (const Json& j : *list) {
    PERI_ASSIGN(const int64_t v, j.as_int());
    out.push_back(v);
  }
  return out;
}

Result<std::string> text_of(const Json& json, std::string_view key) {
  PERI_ASSIGN(const std::string_view text, json.get_string(key));
  return std::string(text);
}

// A configuration is sent as its source text.
Result<ModelConfig> read_config(const Json& json) {
  PERI_ASSIGN(const bool yaml, json.get_bool("yaml"));
  PERI_ASSIGN(const std::string text, text_of(json, "text"));
  PERI_ASSIGN(ModelConfig out, parse_model_config(text, yaml ? "config.yaml" : "config.pbtxt"));
  PERI_ASSIGN(out.name, text_of(json, "name"));
  return out;
}

Result<std::vector<plan::Port>> read_ports(const Json& json, std::string_view key) {
  std::vector<plan::Port> out;
  PERI_ASSIGN(const Json::Array* list, json.get_array(key));
  for (const Json& j : *list) {
    plan::Port p;
    PERI_ASSIGN(p.name, text_of(j, "name"));
    PERI_ASSIGN(const std::string_view dtype, j.get_string("dtype"));
    PERI_ASSIGN(p.dtype, parse_datatype(dtype));
    PERI_ASSIGN(const std::string_view shape, j.get_string("shape"));
    PERI_ASSIGN(p.shape, parse_shape(shape));
    out.push_back(std::move(p));
  }
  return out;
}
}  // namespace

Status send_frame(int socket, const std::string& json, std::span<const std::byte> bytes) {
  const uint64_t head[2] = {json.size(), bytes.size()};
  PERI_TRY(send_all(socket, head, sizeof head));
  PERI_TRY(send_all(socket, json.data(), json.size()));
  return send_all(socket, bytes.data(), bytes.size());
}

Result<Frame> receive_frame(int socket) {
  uint64_t head[2] = {0, 0};
  PERI_TRY(receive_all(socket, head, sizeof head));
  if (head[0] > kMaxText || head[1] > kMaxBytes) return invalid("a frame larger than any");
  std::string text;
  PERI_TRY(receive_growing(socket, head[0], &text));
  Frame out;
  if (head[1] > 0) {
    out.bytes = std::make_shared<std::vector<std::byte>>();
    PERI_TRY(receive_growing(socket, head[1], out.bytes.get()));
  }
  PERI_ASSIGN(out.json, parse_json(text, {32, kMaxText, 0}));
  return out;
}

std::string order_text(const LoadOrder& order, uint32_t model) {
  JsonWriter w;
  w.begin_object().key("load").begin_object();
  w.field("model", static_cast<int64_t>(model)).field("name", order.name).field("version", order.version);
  w.field("path", order.path).field("folder", order.folder).field("stamp", order.stamp);
  if (order.known_sizes) add_numbers("known_sizes", *order.known_sizes, &w);
  if (order.instances) w.field("instances", *order.instances);
  const ModelConfig& c = order.config;
  w.key("config").begin_object().field("name", c.name).field("yaml", c.yaml).field("text", c.text).end_object();
  return w.end_object().end_object().take();
}

Result<LoadOrder> read_order(const Json& json, uint32_t* model) {
  LoadOrder out;
  PERI_ASSIGN(const int64_t id, json.get_int("model"));
  *model = static_cast<uint32_t>(id);
  PERI_ASSIGN(out.name, text_of(json, "name"));
  PERI_ASSIGN(out.version, json.get_int("version"));
  PERI_ASSIGN(out.path, text_of(json, "path"));
  PERI_ASSIGN(out.folder, text_of(json, "folder"));
  PERI_ASSIGN(out.stamp, json.get_uint("stamp"));
  if (json.find("instances")) {
    PERI_ASSIGN(out.instances, json.get_int("instances"));
  }
  if (json.find("known_sizes")) {
    PERI_ASSIGN(out.known_sizes, numbers_of(json, "known_sizes"));
  }
  PERI_ASSIGN(const Json* config, json.get("config"));
  PERI_ASSIGN(out.config, read_config(*config));
  return out;
}

std::string loaded_text(const Loaded& loaded) {
  JsonWriter w;
  w.begin_object().key("loaded").begin_object();
  w.field("note", loaded.note).field("backend", loaded.backend).field("memory_bytes", loaded.memory_bytes);
  w.field("slots", static_cast<int64_t>(loaded.servable->slots()));
  w.field("canary_inputs", static_cast<int64_t>(loaded.canary.inputs.size()));
  add_numbers("batch_sizes", loaded.batch_sizes, &w);
  w.key("told").begin_object();
  for (const auto& [key, value] : loaded.told) w.field(key, value);
  w.end_object().key("sections").begin_array();
  for (const auto& [name, bytes] : loaded.sections) w.value(name);
  w.end_array();
  for (const auto& [key, ports] :
       {std::pair{"inputs", loaded.servable->inputs()}, std::pair{"outputs", loaded.servable->outputs()}}) {
    w.key(key).begin_array();
    for (const plan::Port& p : ports)
      w.begin_object()
          .field("name", p.name)
          .field("dtype", datatype_name(p.dtype))
          .field("shape", shape_text(p.shape))
          .end_object();
    w.end_array();
  }
  return w.end_object().end_object().take();
}

Result<LoadedThere> read_loaded(const Frame& frame) {
  LoadedThere out;
  PERI_ASSIGN(const Json* json, frame.json.get("loaded"));
  PERI_ASSIGN(out.loaded.note, text_of(*json, "note"));
  PERI_ASSIGN(out.loaded.backend, text_of(*json, "backend"));
  PERI_ASSIGN(out.loaded.memory_bytes, json->get_int("memory_bytes"));
  PERI_ASSIGN(const int64_t slots, json->get_int("slots"));
  if (slots < 1 || slots > 1024) return invalid("a worker's model has no slots");
  out.slots = static_cast<int>(slots);
  PERI_ASSIGN(out.loaded.batch_sizes, numbers_of(*json, "batch_sizes"));
  for (const int64_t size : out.loaded.batch_sizes)
    if (size < 1) return invalid("a worker's model has batches of %lld rows", static_cast<long long>(size));
  PERI_ASSIGN(out.inputs, read_ports(*json, "inputs"));
  PERI_ASSIGN(out.outputs, read_ports(*json, "outputs"));
  PERI_ASSIGN(const Json* told, json->get("told"));
  PERI_ASSIGN(const auto* parameters, told->as_object());
  for (const Json::Member& m : *parameters) {
    PERI_ASSIGN(const std::string_view value, m.value.as_string());
    out.loaded.told[m.key] = value;
  }
  if (frame.bytes) {
    PERI_ASSIGN(const int64_t inputs, json->get_int("canary_inputs"));
    PERI_ASSIGN(std::vector<Tensor> all, read_block(*frame.bytes, frame.bytes));
    if (inputs < 0 || static_cast<size_t>(inputs) > all.size()) return invalid("a canary of too few tensors");
    PERI_ASSIGN(const Json::Array* sections, json->get_array("sections"));
    if (sections->size() + static_cast<size_t>(inputs) > all.size()) return invalid("fewer tensors than sections");
    for (size_t k = sections->size(); k-- > 0;) {
      PERI_ASSIGN(const std::string_view name, (*sections)[k].as_string());
      if (all.back().dtype() != DType::kString || all.back().numel() != 1) return invalid("a section is not a text");
      out.loaded.sections[std::string(name)] = all.back().string_values()[0];
      all.pop_back();
    }
    out.loaded.canary.inputs.assign(all.begin(), all.begin() + inputs);
    out.loaded.canary.outputs.assign(all.begin() + inputs, all.end());
  }
  return out;
}

void add_error(const Error& e, JsonWriter* w) {
  w->key("error").begin_object().field("kind", static_cast<int64_t>(e.kind)).field("message", e.message);
  w->field("file", e.file).field("node", e.node).field("expected", e.expected).field("found", e.found);
  w->field("remedy", e.remedy).end_object();
}

Error read_error(const Json& json) {
  Error out(ErrorKind::kInternal, "the worker gave an error that cannot be read");
  const auto kind = json.get_int("kind");
  if (!kind.ok() || *kind < 0 || *kind > static_cast<int64_t>(ErrorKind::kInternal)) return out;
  out.kind = static_cast<ErrorKind>(*kind);
  for (const auto& [key, to] :
       {std::pair{"message", &out.message}, std::pair{"file", &out.file}, std::pair{"node", &out.node},
        std::pair{"expected", &out.expected}, std::pair{"found", &out.found}, std::pair{"remedy", &out.remedy}})
    if (const auto text = json.get_string(key); text.ok()) *to = *text;
  return out;
}

}  // namespace peri::serve
