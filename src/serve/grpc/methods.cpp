// Responses are the JSON of HTTP, converted to the message by the names of its fields.
#include "serve/grpc/methods.hpp"

#include <google/protobuf/util/json_util.h>
#include <kserve.pb.h>

#include "base/json.hpp"
#include "base/utf8.hpp"
#include "serve/grpc/infer_message.hpp"
#include "serve/repository/scan.hpp"

namespace peri::serve {
namespace {

template <class M>
Result<M> read(Bytes bytes, const MessageLimits& limits) {
  M out;
  PERI_TRY(read_message(bytes, limits, &out));
  return out;
}

template <class M>
Result<Ask> ask_nothing(Bytes bytes, const MessageLimits& limits, std::string target) {
  PERI_TRY(read<M>(bytes, limits));
  return Ask{"GET", std::move(target), ""};
}

// A request about the model named by the message; the suffix follows the model's path.
template <class M>
Result<Ask> ask_model(Bytes bytes, const MessageLimits& limits, const char* behind) {
  PERI_ASSIGN(const M m, read<M>(bytes, limits));
  PERI_ASSIGN(std::string target, model_target(m.name(), m.version()));
  return Ask{"GET", target + behind, ""};
}

Result<Ask> ask_statistics(Bytes bytes, const MessageLimits& limits) {
  using M = inference::ModelStatisticsRequest;
  PERI_ASSIGN(const M m, read<M>(bytes, limits));
  if (m.name().empty()) return Ask{"GET", "/v2/models/stats", ""};
  PERI_ASSIGN(std::string target, model_target(m.name(), m.version()));
  return Ask{"GET", target + "/stats", ""};
}

Result<Ask> ask_index(Bytes bytes, const MessageLimits& limits) {
  using M = inference::RepositoryIndexRequest;
  PERI_ASSIGN(const M m, read<M>(bytes, limits));
  if (!m.repository_name().empty()) return unsupported("there is one repository, which has no name");
  return Ask{"POST", "/v2/repository/index", m.ready() ? R"({"ready":true})" : ""};
}

template <class M>
Result<Ask> ask_load(Bytes bytes, const MessageLimits& limits, const char* what) {
  PERI_ASSIGN(const M m, read<M>(bytes, limits));
  if (!m.repository_name().empty()) return unsupported("there is one repository, which has no name");
  PERI_ASSIGN(std::string target, model_target(m.model_name(), ""));
  JsonWriter w;
  w.begin_object().key("parameters").begin_object();
  for (const auto& [key, value] : m.parameters()) {
    w.key(shown_name(key));
    using Value = inference::ModelRepositoryParameter;
    switch (value.parameter_choice_case()) {
      case Value::kBoolParam: w.value(value.bool_param()); break;
      case Value::kInt64Param: w.value(int64_t{value.int64_param()}); break;
      case Value::kStringParam: w.value(value.string_param()); break;
      case Value::kBytesParam:
        if (!key.starts_with("file:"))
          return invalid("the parameter '%s' holds bytes", shown_name(key).c_str())
              .expecting("a bool, number or string");
        w.value("");  // the content of a file, refused later because of its key
        break;
      default: return invalid("the parameter '%s' holds nothing", shown_name(key).c_str());
    }
  }
  w.end_object().end_object();
  target.replace(0, std::string_view("/v2").size(), "/v2/repository");
  return Ask{"POST", target + what, m.parameters().empty() ? "" : w.take()};
}

// A level is a list, every other setting a single text; no text resets the setting.
Result<Ask> ask_traces(Bytes bytes, const MessageLimits& limits) {
  PERI_ASSIGN(const auto m, read<inference::TraceSettingRequest>(bytes, limits));
  std::string target = "/v2";
  if (!m.model_name().empty()) {
    PERI_ASSIGN(target, model_target(m.model_name(), ""));
  }
  target += "/trace/setting";
  if (m.settings().empty()) return Ask{"GET", target, ""};
  JsonWriter w;
  w.begin_object();
  for (const auto& [key, setting] : m.settings()) {
    w.key(shown_name(key));
    if (setting.value().empty()) {
      w.null();
    } else if (key == "trace_level") {
      w.begin_array();
      for (const std::string& v : setting.value()) w.value(v);
      w.end_array();
    } else if (setting.value_size() == 1) {
      w.value(setting.value(0));
    } else {
      return invalid("expect only 1 value for '%s'", shown_name(key).c_str());
    }
  }
  return Ask{"POST", target, w.end_object().take()};
}

Result<Ask> ask_logging(Bytes bytes, const MessageLimits& limits) {
  PERI_ASSIGN(const auto m, read<inference::LogSettingsRequest>(bytes, limits));
  if (m.settings().empty()) return Ask{"GET", "/v2/logging", ""};
  JsonWriter w;
  w.begin_object();
  for (const auto& [key, setting] : m.settings()) {
    w.key(shown_name(key));
    using Value = inference::LogSettingsRequest::SettingValue;
    switch (setting.parameter_choice_case()) {
      case Value::kBoolParam: w.value(setting.bool_param()); break;
      case Value::kUint32Param: w.value(static_cast<int64_t>(setting.uint32_param())); break;
      case Value::kStringParam: w.value(setting.string_param()); break;
      default: w.null();
    }
  }
  return Ask{"POST", "/v2/logging", w.end_object().take()};
}

// Requests about shared memory: the message is ignored, since there are no regions.
template <const char* kPath>
Result<Ask> ask_shared(Bytes bytes, const MessageLimits& limits) {
  PERI_TRY(read<inference::ServerLiveRequest>(bytes, limits));
  const std::string_view path = kPath;
  return Ask{path.ends_with("status") ? "GET" : "POST", std::string(path), ""};
}
constexpr char kSystemStatus[] = "/v2/systemsharedmemory/status", kCudaStatus[] = "/v2/cudasharedmemory/status",
               kRegister[] = "/v2/systemsharedmemory/register", kUnregister[] = "/v2/systemsharedmemory/unregister";
Result<std::string> by_nothing(const HttpReply&) { return std::string(); }

// The service is this server, or the name of a model.
Result<Ask> ask_health(Bytes bytes, const MessageLimits& limits) {
  PERI_ASSIGN(const inference::HealthCheckRequest m, read<inference::HealthCheckRequest>(bytes, limits));
  std::string about = m.service();
  if (about == "inference.GRPCInferenceService" || about == "grpc.health.v1.Health") about.clear();
  if (!about.empty() && !plain_name(about)) return usage("no service of this name");
  return Ask{"GET", "/v2/health/ready" + (about.empty() ? "" : "/" + about), "", about};
}

template <class M>
Result<std::string> by_status(const HttpReply& reply, void (M::*set)(bool)) {
  M m;
  (m.*set)(reply.status == 200);
  return m.SerializeAsString();
}

// Converts the reply's JSON, wrapped in an object under `key` if one is given.
template <class M>
Result<std::string> by_json(const HttpReply& reply, const char* key = nullptr) {
  const std::string json = key ? "{\"" + std::string(key) + "\":" + reply.text + "}" : reply.text;
  M m;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  if (!json.empty())
    if (const auto read = google::protobuf::util::JsonStringToMessage(json, &m, options); !read.ok())
      return internal_error("an answer is no %s", M::descriptor()->name().c_str());
  return m.SerializeAsString();
}

namespace pb = inference;

// A setting of traces or of the log.
Status put_setting(const Json& v, pb::TraceSettingResponse::SettingValue* out) {
  for (const Json& each : v.items()) {
    PERI_ASSIGN(const std::string_view text, each.as_string());
    out->add_value(std::string(text));
  }
  if (v.is_string()) out->add_value(std::string(*v.as_string()));
  return Ok{};
}
Status put_setting(const Json& v, pb::LogSettingsResponse::SettingValue* out) {
  if (const auto is = v.as_bool(); is.ok())
    out->set_bool_param(*is);
  else if (const auto n = v.as_uint(); n.ok())
    out->set_uint32_param(static_cast<uint32_t>(*n));
  else if (const auto s = v.as_string(); s.ok())
    out->set_string_param(std::string(*s));
  return Ok{};
}

template <class M>
Result<std::string> by_settings(const HttpReply& reply) {
  PERI_ASSIGN(const Json said, parse_json(reply.text));
  M m;
  for (const Json::Member& each : said.members()) PERI_TRY(put_setting(each.value, &(*m.mutable_settings())[each.key]));
  return m.SerializeAsString();
}

#define PERI_PATH(name) "/inference.GRPCInferenceService/" name

constexpr Method kMethods[] = {
    {.path = PERI_PATH("ModelInfer")},
    {.path = PERI_PATH("ModelStreamInfer"), .stream = true},
    {.path = PERI_PATH("ServerLive"),
     .ask = [](Bytes b, const MessageLimits& l) { return ask_nothing<pb::ServerLiveRequest>(b, l, "/v2/health/live"); },
     .answer = [](const HttpReply& r) { return by_status(r, &pb::ServerLiveResponse::set_live); },
     .says_by_status = true,
     .open = true},
    {PERI_PATH("ServerReady"),
     [](Bytes b, const MessageLimits& l) { return ask_nothing<pb::ServerReadyRequest>(b, l, "/v2/health/ready"); },
     [](const HttpReply& r) { return by_status(r, &pb::ServerReadyResponse::set_ready); }, true},
    {PERI_PATH("ModelReady"),
     [](Bytes b, const MessageLimits& l) { return ask_model<pb::ModelReadyRequest>(b, l, "/ready"); },
     [](const HttpReply& r) { return by_status(r, &pb::ModelReadyResponse::set_ready); }, true},
    {PERI_PATH("ServerMetadata"),
     [](Bytes b, const MessageLimits& l) { return ask_nothing<pb::ServerMetadataRequest>(b, l, "/v2"); },
     [](const HttpReply& r) { return by_json<pb::ServerMetadataResponse>(r); }},
    {PERI_PATH("ModelMetadata"),
     [](Bytes b, const MessageLimits& l) { return ask_model<pb::ModelMetadataRequest>(b, l, ""); },
     [](const HttpReply& r) { return by_json<pb::ModelMetadataResponse>(r); }},
    {PERI_PATH("ModelConfig"),
     [](Bytes b, const MessageLimits& l) { return ask_model<pb::ModelConfigRequest>(b, l, "/config"); },
     [](const HttpReply& r) { return by_json<pb::ModelConfigResponse>(r, "config"); }},
    {PERI_PATH("ModelStatistics"), ask_statistics,
     [](const HttpReply& r) { return by_json<pb::ModelStatisticsResponse>(r); }},
    {PERI_PATH("RepositoryIndex"), ask_index,
     [](const HttpReply& r) { return by_json<pb::RepositoryIndexResponse>(r, "models"); }},
    {PERI_PATH("RepositoryModelLoad"),
     [](Bytes b, const MessageLimits& l) { return ask_load<pb::RepositoryModelLoadRequest>(b, l, "/load"); },
     by_nothing},
    {PERI_PATH("RepositoryModelUnload"),
     [](Bytes b, const MessageLimits& l) { return ask_load<pb::RepositoryModelUnloadRequest>(b, l, "/unload"); },
     by_nothing},
    {PERI_PATH("SystemSharedMemoryStatus"), ask_shared<kSystemStatus>, by_nothing},
    {PERI_PATH("SystemSharedMemoryRegister"), ask_shared<kRegister>, by_nothing},
    {PERI_PATH("SystemSharedMemoryUnregister"), ask_shared<kUnregister>, by_nothing},
    {PERI_PATH("CudaSharedMemoryStatus"), ask_shared<kCudaStatus>, by_nothing},
    {PERI_PATH("CudaSharedMemoryRegister"), ask_shared<kRegister>, by_nothing},
    {PERI_PATH("CudaSharedMemoryUnregister"), ask_shared<kUnregister>, by_nothing},
    {PERI_PATH("TraceSetting"), ask_traces, by_settings<pb::TraceSettingResponse>},
    {PERI_PATH("LogSettings"), ask_logging, by_settings<pb::LogSettingsResponse>},
    // grpc.health.v1: SERVING (1) or NOT_SERVING (2).
    {"/grpc.health.v1.Health/Check", ask_health,
     [](const HttpReply& r) { return Result<std::string>(r.status == 200 ? "\x08\x01" : "\x08\x02"); }, true},
    {.path = "/grpc.health.v1.Health/Watch", .ask = ask_health, .says_by_status = true, .watch = true},
};
#undef PERI_PATH
}  // namespace

const Method* find_method(std::string_view path) {
  for (const Method& m : kMethods)
    if (m.path == path) return &m;
  return nullptr;
}

std::string error_sentence(const HttpReply& reply) {
  const auto json = parse_json(reply.text, {8, 1 << 20, 1000});
  if (json.ok())
    if (const auto said = json->get_string("error"); said.ok()) return printable(*said);  // names of clients
  return printable(reply.text);
}

void put_stream_head(size_t answer_bytes, std::string* head) {
  put_bytes_head(pb::ModelStreamInferResponse::kInferResponseFieldNumber, answer_bytes, head);
}

std::string stream_error(const std::string& sentence, const std::string& id) {
  pb::ModelStreamInferResponse m;
  m.set_error_message(sentence);
  if (!id.empty()) m.mutable_infer_response()->set_id(id);
  return m.SerializeAsString();
}

}  // namespace peri::serve
