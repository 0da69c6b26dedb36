// Numbers are written as the shortest text that parses to the same float.
#include "serve/text/text_api.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "serve/kserve/told.hpp"

namespace peri::serve {
namespace {

// An error unless each member's name is one of `known`.
Status check_members(const Json& root, std::initializer_list<std::string_view> known) {
  if (!root.is_object()) return invalid("the request is not a JSON object");
  for (const Json::Member& m : root.members())
    if (std::find(known.begin(), known.end(), m.key) == known.end()) {
      std::string list;
      for (const std::string_view k : known) list += (list.empty() ? "" : ", ") + std::string(k);
      return invalid("'%s' is not known here", shown_name(m.key).c_str()).expecting("one of: " + list);
    }
  return Ok{};
}

Status add_text(const Json& v, const TextLimits& limits, TextRequest* out) {
  PERI_ASSIGN(const std::string_view text, v.as_string());
  if (text.size() > limits.text_bytes)
    return invalid("a text of %zu bytes", text.size())
        .expecting(format("at most %zu (--max-text-bytes)", limits.text_bytes));
  if (out->inputs.size() == limits.texts)
    return invalid("more than %zu texts in a request (--max-texts)", limits.texts);
  out->inputs.push_back({std::string(text), {}, false});
  return Ok{};
}

Status add_ids(const Json& v, const TextLimits& limits, TextRequest* out) {
  TextInput input;
  input.is_ids = true;
  for (const Json& id : v.items()) {
    PERI_ASSIGN(const int64_t n, id.as_int());
    input.ids.push_back(n);
  }
  if (input.ids.empty()) return invalid("a text of no tokens");
  if (out->inputs.size() == limits.texts)
    return invalid("more than %zu texts in a request (--max-texts)", limits.texts);
  out->inputs.push_back(std::move(input));
  return Ok{};
}

// The member `key`: a text, the token ids of one (with `ids`), or a list of either.
Status read_inputs(const Json& root, std::string_view key, const TextLimits& limits, bool ids, TextRequest* out) {
  PERI_ASSIGN(const Json* member, root.get(key));
  const Json& v = *member;
  const auto number = [](const Json& j) { return j.kind() == Json::Kind::kInt || j.kind() == Json::Kind::kUint; };
  out->single = v.is_string() || (ids && !v.items().empty() && number(v.items()[0]));
  if (!v.is_string() && (!v.is_array() || v.items().empty()))
    return invalid("'%s' is %s, neither a text nor a list of texts", std::string(key).c_str(),
                   v.is_array() ? "an empty list" : std::string(v.kind_name()).c_str());
  const auto add = [&](const Json& each) {
    return ids && each.is_array() ? add_ids(each, limits, out) : add_text(each, limits, out);
  };
  Status s = out->single ? add(v) : Ok{};
  for (size_t k = 0; s.ok() && !out->single && k < v.items().size(); ++k) s = add(v.items()[k]);
  if (!s.ok()) return Error(s.error()).at_node(key);
  return Ok{};
}

void write_row(std::span<const float> row, std::string* out) {
  out->push_back('[');
  for (size_t k = 0; k < row.size(); ++k) {
    if (k) out->push_back(',');
    if (!std::isfinite(row[k])) {
      *out += "null";
      continue;
    }
    char text[32];
    out->append(text, std::to_chars(text, text + sizeof text, row[k]).ptr);
  }
  out->push_back(']');
}

void write_base64(std::span<const std::byte> bytes, std::string* out) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t k = 0; k < bytes.size(); k += 3) {
    uint32_t v = 0;
    for (size_t j = 0; j < 3; ++j) v = v << 8 | (k + j < bytes.size() ? static_cast<uint32_t>(bytes[k + j]) : 0);
    for (size_t j = 0; j < 4; ++j) out->push_back(k + j > bytes.size() ? '=' : kDigits[v >> (18 - 6 * j) & 63]);
  }
}

void write_model(const Served& served, JsonWriter& w) {
  w.begin_object()
      .field("id", served.model->name())
      .field("object", "model")
      .field("created", 0)
      .field("owned_by", "peri");
  w.end_object();
}
}  // namespace

Result<TextRequest> parse_embeddings(std::string_view body, const TextLimits& limits) {
  PERI_ASSIGN(const Json root, parse_json(body, limits.json));
  PERI_TRY(check_members(root, {"model", "input", "encoding_format", "dimensions", "user", "prompt_name"}));
  TextRequest out;
  PERI_ASSIGN(const std::string_view model, root.get_string("model"));
  out.model = model;
  PERI_TRY(read_inputs(root, "input", limits, true, &out));
  PERI_ASSIGN(const std::string_view form, root.get_string("encoding_format", "float"));
  if (form != "float" && form != "base64")
    return invalid("'encoding_format' is '%s'", shown_name(form).c_str()).expecting("float or base64");
  out.base64 = form == "base64";
  PERI_TRY(root.get_string("user", ""));
  PERI_ASSIGN(const std::string_view prompt, root.get_string("prompt_name", ""));
  if (given(root, "prompt_name")) out.prompt_name = prompt;
  PERI_ASSIGN(out.dimensions, root.get_int("dimensions", 0));
  if (out.dimensions < 1 && given(root, "dimensions"))
    return invalid("'dimensions' is %lld", static_cast<long long>(out.dimensions)).expecting("at least 1");
  return out;
}

Result<TextRequest> parse_generate(std::string_view body, const TextLimits& limits) {
  PERI_ASSIGN(const Json root, parse_json(body, limits.json));
  PERI_TRY(check_members(root, {"text_input", "id", "parameters"}));
  TextRequest out;
  PERI_TRY(read_inputs(root, "text_input", limits, false, &out));
  PERI_ASSIGN(const std::string_view id, root.get_string("id", ""));
  out.id = id.substr(0, 1000);
  InferRequest common;
  bool binary = false;
  PERI_TRY(read_parameters(root, InferLimits(), &binary, &common));
  if (!common.step.id.none()) return stateless();
  if (const Json* parameters = given(root, "parameters")) {
    PERI_ASSIGN(const std::string_view prompt, parameters->get_string("prompt_name", ""));
    if (given(*parameters, "prompt_name")) out.prompt_name = prompt;
  }
  out.priority = common.priority;
  out.timeout_us = common.timeout_us;
  return out;
}

std::string embeddings_reply(const TextRequest& request, const TextResult& result) {
  std::string out = R"({"object":"list","data":[)";
  for (size_t k = 0; k < result.rows.size(); ++k) {
    out += format("%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", k ? "," : "", k);
    if (request.base64) {
      out.push_back('"');
      write_base64(std::as_bytes(std::span(result.rows[k])), &out);
      out.push_back('"');
    } else {
      write_row(result.rows[k], &out);
    }
    out.push_back('}');
  }
  JsonWriter w;
  w.value(request.model);
  const auto tokens = static_cast<long long>(result.tokens);
  return out + "],\"model\":" + w.take() +
         format(",\"usage\":{\"prompt_tokens\":%lld,\"total_tokens\":%lld}}", tokens, tokens);
}

std::string generate_reply(const TextRequest& request, const Served& served, const TextResult& result) {
  JsonWriter w;
  w.begin_object();
  if (!request.id.empty()) w.field("id", request.id);
  w.field("model_name", served.model->name()).field("model_version", served.model->version_text()).end_object();
  std::string out = w.take();
  JsonWriter name;
  name.value(served.text->spec().output);
  out.pop_back();
  out += "," + name.take() + ":";
  if (!request.single) out.push_back('[');
  for (size_t k = 0; k < result.rows.size(); ++k) {
    if (k) out.push_back(',');
    write_row(result.rows[k], &out);
  }
  return out + (request.single ? "}" : "]}");
}

std::string list_models(const std::vector<ServedPtr>& all) {
  JsonWriter w;
  w.begin_object().field("object", "list").key("data").begin_array();
  const Served* last = nullptr;
  for (const ServedPtr& s : all) {
    if (!TextJob::answer_of(*s).ok() || (last && last->model->name() == s->model->name())) continue;
    write_model(*s, w);
    last = s.get();
  }
  w.end_array().end_object();
  return w.take();
}

std::string show_model(const Served& served) {
  JsonWriter w;
  write_model(served, w);
  return w.take();
}

HttpReply openai_error(int status, std::string_view message, std::string_view code) {
  JsonWriter w;
  w.begin_object().key("error").begin_object().field("message", message);
  w.field("type", status < 500 ? "invalid_request_error" : "server_error").key("param").null().key("code");
  if (code.empty())
    w.null();
  else
    w.value(code);
  w.end_object().end_object();
  HttpReply out;
  out.status = status;
  out.text = w.take();
  return out;
}

std::shared_ptr<TextJob> run_texts(TextForm form, ServedPtr served, TextRequest request,
                                   std::function<int(const Error&)> status_of, std::function<void(HttpReply)> done) {
  const bool openai = form == TextForm::kEmbeddings;
  auto inputs = std::move(request.inputs);
  const std::optional<std::string> prompt_name = request.prompt_name;
  const int priority = static_cast<int>(request.priority);
  const int64_t timeout_ns = request.timeout_us * 1000;
  auto finish = [form, openai, served, request = std::move(request), status_of = std::move(status_of),
                 done = std::move(done)](Result<TextResult> result, int64_t retry_after_ns) {
    if (result.ok() && request.dimensions > 0 && request.dimensions != static_cast<int64_t>(result->rows[0].size()))
      result = invalid("'dimensions' is %lld, the model's embeddings have %zu",
                       static_cast<long long>(request.dimensions), result->rows[0].size());
    HttpReply reply;
    if (!result.ok()) {
      const int code = status_of(result.error());
      const int status = code == 501 ? 400 : code;  // clients repeat requests after 5xx
      reply = openai ? openai_error(status, told(result.error())) : error_reply(status, told(result.error()));
      if (retry_after_ns > 0) reply.retry_after_s = (retry_after_ns + 999'999'999) / 1'000'000'000;
    } else {
      reply.text = openai ? embeddings_reply(request, *result) : generate_reply(request, *served, *result);
    }
    if (form == TextForm::kGenerateStream && result.ok()) {
      reply.content_type = "text/event-stream; charset=utf-8";
      reply.text = "data: " + reply.text + "\n\n";
    }
    done(std::move(reply));
  };
  const auto job = std::make_shared<TextJob>(served, std::move(inputs), std::move(finish));
  if (prompt_name) job->set_prompt(*prompt_name);
  job->set_times(priority, timeout_ns);
  return job;
}

}  // namespace peri::serve
