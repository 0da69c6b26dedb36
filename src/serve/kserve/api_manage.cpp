// Requests about the server itself: repository, traces, log.
#include "serve/kserve/api_work.hpp"
#include "serve/kserve/describe.hpp"

namespace peri::serve {

// The JSON of a small request; null: its body is empty.
static Result<Json> small_json(const HttpRequest& r, const InferLimits& limits) {
  if (r.body.empty()) return Json();
  return parse_json({reinterpret_cast<const char*>(r.body.data()), r.body.size()},
                    {limits.json_depth, limits.json_bytes, limits.json_values});
}

// The same, where the JSON must be an object or absent.
static Result<Json> small_object(const HttpRequest& r, const InferLimits& limits) {
  PERI_ASSIGN(Json out, small_json(r, limits));
  if (!r.body.empty() && !out.is_object())
    return invalid("the request's body is not an object")
        .expecting("an object of JSON, or nothing")
        .but_found(out.kind_name());
  return out;
}

namespace {
// The parameters of a load or unload request.
struct Asked {
  bool dependents = false;
  std::optional<std::string> config;
};
}  // namespace

// Errors: kUnsupported for what a client may not request. No request writes files.
static Status take_parameter(const Json::Member& m, bool load, Asked* out) {
  if (m.value.is_null()) return Ok{};
  if (m.key == "unload_dependents") {
    const auto flag = m.value.as_bool();
    if (!flag.ok()) return invalid("'unload_dependents' is neither true nor false").but_found(m.value.kind_name());
    out->dependents = *flag;
    return Ok{};
  }
  if (m.key == "config" && load) {
    const auto text = m.value.as_string();
    if (!text.ok())
      return invalid("'config' is not a string")
          .expecting("the text of a configuration in JSON, as \"{\\\"max_batch_size\\\": 8}\"")
          .but_found(m.value.kind_name());
    out->config = std::string(*text);
    return Ok{};
  }
  if (m.key.starts_with("file:"))
    return unsupported(
        "models are loaded from the repository: no files are taken; put them into the model's folder, then load it");
  return unsupported("the parameter '%s' is not known", shown_name(m.key).c_str());
}

static Result<Asked> asked_of(const HttpRequest& r, const InferLimits& limits, bool load) {
  PERI_ASSIGN(const Json json, small_object(r, limits));
  const Json* const parameters = given(json, "parameters");
  if (parameters && !parameters->is_object())
    return invalid("'parameters' is not an object").expecting("an object").but_found(parameters->kind_name());
  Asked out;
  for (const Json::Member& m : (parameters ? *parameters : json).members()) PERI_TRY(take_parameter(m, load, &out));
  return out;
}

void Api::route_repository(const std::shared_ptr<Work>& work, std::span<const std::string_view> path) {
  if (work->way != Way::kManagement && !options_.public_management)
    return reply(*work, error_reply(403, "models are managed by the server's management socket alone"));
  if (path.size() == 1 && path[0] == "index") {
    std::vector<IndexRow> rows = repository_.index();
    if (const HttpRequest& r = work->exchange->request(); !r.body.empty()) {
      const auto json = small_object(r, options_.limits);
      if (!json.ok()) return reply(*work, error_reply(400, told(json.error())));
      const Json* const only = given(*json, "ready");
      if (only && !only->as_bool().ok()) return reply(*work, error_reply(400, "'ready' is neither true nor false"));
      if (only && *only->as_bool()) std::erase_if(rows, [](const IndexRow& r) { return r.state != "READY"; });
    }
    return reply(*work, text_reply(describe_index(rows)));
  }
  if (path.size() != 3 || path[0] != "models" || (path[2] != "load" && path[2] != "unload"))
    return reply(*work, error_reply(404, "no such path"));
  if (repository_.control() != Control::kExplicit)
    return reply(*work,
                 error_reply(503,
                             "explicit model load / unload is not allowed if polling is enabled, or if no control is: "
                             "start the server with --model-control-mode explicit"));
  auto asked = asked_of(work->exchange->request(), options_.limits, path[2] == "load");
  if (!asked.ok())
    return reply(*work, error_reply(asked.error().kind == ErrorKind::kUnsupported ? 501 : 400, told(asked.error())));
  const std::string name(path[1]);
  const auto done = [this, work, name, what = std::string(path[2])](Status s) {
    reply(*work, s.ok() ? bare_reply(200)
                        : error_reply(s.error().kind == ErrorKind::kUnsupported ? 404 : 400,
                                      "failed to " + what + " '" + name + "', " + told(s.error())));
  };
  if (!plain_name(name)) return reply(*work, error_reply(400, "this is not a valid model name"));
  answer_later(work);
  path[2] == "load" ? repository_.load(name, std::move(asked->config), done)
                    : repository_.unload(name, asked->dependents, done);
}

// Replies with `settings`, after applying the changes of a POST.
template <class Update, class Text>
static HttpReply settings_reply(const HttpRequest& r, const Result<Json>& changes, const Update& update,
                                const Text& text) {
  if (r.method == "POST") {
    if (!changes.ok()) return error_reply(400, told(changes.error()));
    if (const Status s = update(*changes); !s.ok()) return error_reply(status_of(s.error()), told(s.error()));
  }
  return text_reply(text());
}

// Everyone may read settings; changing them requires the management listener or permission.
bool Api::may_set(const Work& work) const {
  return work.exchange->request().method == "GET" || work.way == Way::kManagement || options_.public_settings;
}

constexpr std::string_view kElsewhere =
    "settings are changed on the server's management socket (--management-socket), or by who may do all "
    "(--open-management)";

void Api::route_traces(const std::shared_ptr<Work>& work, std::string_view model) {
  Observer* o = options_.observer;
  if (!o) return reply(*work, error_reply(501, "this server has no traces"));
  if (!may_set(*work)) return reply(*work, error_reply(403, kElsewhere));
  const std::string name(model);
  if (!name.empty() && repository_.versions(name).empty())
    return reply(*work, error_reply(400, "Request for unknown model : " + shown_name(name)));
  const HttpRequest& r = work->exchange->request();
  reply(*work, settings_reply(
                   r, small_json(r, options_.limits), [&](const Json& j) { return o->traces().update(name, j); },
                   [&] { return o->traces().text(name); }));
}

// Shared memory of clients is never mapped: there are no regions, so that unregistering all of them succeeds.
void Api::route_shared(const std::shared_ptr<Work>& work, std::string_view what) {
  const bool get = work->exchange->request().method == "GET";
  if (what == "status") return reply(*work, get ? text_reply("[]") : wrong_method(kRead, "this path takes GET"));
  if (get)
    return reply(*work, what == "register" || what == "unregister" ? wrong_method(kPost, "this path takes POST")
                                                                   : error_reply(404, "no such path"));
  if (what == "unregister") return reply(*work, bare_reply(200));
  reply(*work, what == "register" ? error_reply(501, "shared memory of clients is not taken: send tensors in requests")
                                  : error_reply(404, "no such path"));
}

void Api::route_logging(const std::shared_ptr<Work>& work) {
  ServerLog* log = options_.log;
  if (!log) return reply(*work, error_reply(501, "this server has no log"));
  if (!may_set(*work)) return reply(*work, error_reply(403, kElsewhere));
  const HttpRequest& r = work->exchange->request();
  reply(*work, settings_reply(
                   r, small_json(r, options_.limits), [&](const Json& j) { return log->update(j); },
                   [&] { return log->text(); }));
}

}  // namespace peri::serve
