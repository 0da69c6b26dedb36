// One object holds all parts of a request from its path to its reply.
#include <algorithm>
#include <deque>

#include "base/clock.hpp"
#include "base/fault.hpp"
#include "serve/http/expanded.hpp"
#include "serve/http/head.hpp"
#include "serve/kserve/api_work.hpp"
#include "serve/kserve/classes.hpp"
#include "serve/kserve/describe.hpp"
#include "serve/kserve/infer_reply.hpp"
#include "serve/repository/scan.hpp"

namespace peri::serve {

// `decoded` owns the parts that contain escapes; the others are views of the target.
static std::vector<std::string_view> split_path(std::string_view target, std::deque<std::string>* decoded) {
  std::vector<std::string_view> out;
  target = target.substr(0, target.find('?'));
  while (!target.empty()) {
    if (target[0] == '/') {
      target.remove_prefix(1);
      continue;
    }
    const size_t n = std::min(target.find('/'), target.size());
    out.push_back(target.substr(0, n));
    if (out.back().find('%') != std::string_view::npos)
      if (std::string name = decoded_name(out.back()); !name.empty())
        out.back() = decoded->emplace_back(std::move(name));
    target.remove_prefix(n);
    if (out.size() > 8) break;  // no supported path has more parts
  }
  return out;
}

Api::Api(Repository& repository, ApiOptions options)
    : repository_(repository),
      options_(std::move(options)),
      waiting_(std::make_shared<Waiting>()),
      began_ns_(now_ns()) {}

// Liveness is for supervisors of processes: it reveals nothing and needs no key.
static bool asks_liveness(std::string_view target) { return target.substr(0, target.find('?')) == "/v2/health/live"; }

static bool asks_inference(const HttpRequest& r) {
  const std::string_view path = r.target.substr(0, r.target.find('?'));
  return r.method == "POST" && !path.starts_with("/v2/repository/") && !path.ends_with("/trace/setting") &&
         path != "/v2/logging";
}

// In the form of errors that the path's clients read.
static HttpReply not_admitted(std::string_view target, const Pass& pass) {
  std::deque<std::string> decoded;
  const auto path = split_path(target, &decoded);
  const bool openai = !path.empty() && path[0] == "v1";
  HttpReply out = openai ? openai_error(pass.status, pass.why, pass.status == 401 ? "invalid_api_key" : "")
                         : error_reply(pass.status, pass.why);
  if (pass.status == 401) out.authenticate = "Bearer";
  if (pass.retry_after_ns > 0) out.retry_after_s = (pass.retry_after_ns + 999'999'999) / 1'000'000'000;
  return out;
}

std::optional<HttpReply> Api::refusal(HttpRequest& request) const {
  if (!options_.access || asks_liveness(request.target)) return std::nullopt;
  request.key = options_.access->find(request.authorization);
  const Pass pass = options_.access->admit(*request.key, false, 0);
  return pass.status == 200 ? std::nullopt : std::optional(not_admitted(request.target, pass));
}

bool Api::admitted(Exchange& exchange, bool inference, Pass* pass) const {
  if (!options_.access) return true;
  const HttpRequest& r = exchange.request();
  *pass = r.key ? options_.access->admit(*r.key, inference, now_ns())
                : options_.access->admit(r.authorization, inference, now_ns());
  if (pass->status == 200) return true;
  exchange.reply(not_admitted(r.target, *pass));
  return false;
}

void Api::handle(const std::shared_ptr<Exchange>& exchange, Way way) {
  const HttpRequest& asked = exchange->request();
  Pass pass;
  if (!asks_liveness(asked.target) && !admitted(*exchange, asks_inference(asked), &pass)) return;
  const auto work = std::make_shared<Work>();
  work->exchange = exchange;
  work->way = way;
  work->call.tenant = pass.tenant;
  work->charged = pass.charged;
  ++open_;
  if (Observer* o = options_.observer) {
    const HttpRequest& r = exchange->request();
    const TraceContext trace = asks_inference(r) ? o->trace(r.traceparent, r.target) : TraceContext{};
    if (o->logs() || trace.sampled) {
      work->record = std::make_unique<RequestRecord>();
      work->record->method = r.head_alone ? "HEAD" : r.method;
      work->record->target = r.target.substr(0, 1000);
      work->record->trace = trace;
      work->record->first_byte_ns = r.first_byte_ns;
      work->record->handled_ns = now_ns();
    }
  }
  const Status done = contained([&]() -> Status {
    route(work);
    return Ok{};
  });
  if (!done.ok()) reply(*work, error_reply(500, told(done.error())));
}

// Of a request that cannot be answered, or not now; not of one that failed in its run, or that its client gave up.
static bool is_refusal(int status) { return (status >= 400 && status < 499) || status == 501 || status == 503; }

void Api::reply(Work& work, HttpReply reply) {
  {
    const std::lock_guard<std::mutex> lock(work.mutex);
    if (std::exchange(work.replied, true)) return;
  }
  if (work.charged != kNoKey && is_refusal(reply.status)) options_.access->give_back(work.charged);
  if (work.served && reply.status == 200) ++answered_;
  if (const auto record = std::move(work.record)) {
    record->status = reply.status;
    record->reply_bytes = reply.body_bytes();
    record->replied_ns = now_ns();
    record->id = work.request.id;
    if (work.served) {
      record->model = work.served->model->name();
      record->version = work.served->model->version_text();
    }
    options_.observer->log(*record);
    if (record->trace.sampled) reply.until_sent = options_.observer->until_sent(std::move(*record));
  }
  {
    const auto exchange = std::move(work.exchange);
    exchange->reply(std::move(reply));
  }
  --open_;  // from here on a drain may destroy what the exchange belongs to
}

// The methods that a path below /v2 supports; empty: unknown path.
static std::string_view methods_of(std::span<const std::string_view> path) {
  const std::string_view last = path.back();
  if (last == "logging" || last == "setting") return kReadOrPost;
  const bool work = last == "infer" || last == "generate" || last == "generate_stream";
  if ((work && path.size() > 3) || last == "register" || last == "unregister") return kPost;
  return path.size() > 1 && path[1] == "repository" ? kPost : kRead;
}

void Api::route(const std::shared_ptr<Work>& work) {
  const HttpRequest& r = work->exchange->request();
  std::deque<std::string> decoded;
  const std::vector<std::string_view> path = split_path(r.target, &decoded);
  const bool get = r.method == "GET";
  const auto is = [&](size_t at, std::string_view name) { return path.size() > at && path[at] == name; };
  if (is(0, "v1")) return route_openai(work, std::span(path).subspan(1));
  if (!is(0, "v2") || path.size() > 7)
    return reply(
        *work,
        error_reply(404, "no such path: this server speaks KServe v2, below /v2, and OpenAI's embeddings, below /v1"));
  if (!get && r.method != "POST")
    return reply(*work, wrong_method(methods_of(path), "only GET, HEAD and POST are known"));
  if (path.size() == 1)
    return reply(*work, get ? text_reply(describe_server(options_.id))
                            : wrong_method(kRead, "GET asks for the server's metadata"));
  if (is(1, "health") && !get) return reply(*work, wrong_method(kRead, "health is asked for by GET"));
  if (is(1, "health") && is(2, "live") && path.size() == 3) return reply(*work, bare_reply(200));
  if (is(1, "health") && is(2, "ready") && path.size() <= 4) {
    const int status = readiness(path.size() == 4 ? path[3] : "");
    return reply(*work, status == 404 ? error_reply(404, "no model of this name") : bare_reply(status));
  }
  if (is(1, "trace") && is(2, "setting") && path.size() == 3) return route_traces(work, "");
  if (is(1, "logging") && path.size() == 2) return route_logging(work);
  if (is(1, "models")) return route_models(work, std::span(path).subspan(2));
  if (is(1, "systemsharedmemory") || is(1, "cudasharedmemory")) return route_shared(work, path.back());
  if (is(1, "repository") && get) return reply(*work, wrong_method(kPost, "the repository takes POST"));
  if (is(1, "repository")) return route_repository(work, std::span(path).subspan(2));
  reply(*work, error_reply(404, "no such path"));
}

void Api::route_models(const std::shared_ptr<Work>& work, std::span<const std::string_view> path) {
  const bool get = work->exchange->request().method == "GET";
  if (path.size() == 1 && path[0] == "stats" && get)
    return reply(*work, text_reply(describe_statistics(repository_.all())));
  if (path.empty()) return reply(*work, error_reply(404, "no such path: expected /v2/models/NAME"));
  const std::string_view name = path[0];
  path = path.subspan(1);
  std::string_view version;
  if (path.size() >= 2 && path[0] == "versions") {
    version = path[1];
    path = path.subspan(2);
  }
  const std::string_view what = path.empty() ? "" : path[0];
  if (what == "trace" && version.empty() && path.size() == 2 && path[1] == "setting") return route_traces(work, name);
  if (path.size() > 1) return reply(*work, error_reply(404, "no such path"));
  if (what == "infer") {
    if (get) return reply(*work, wrong_method(kPost, "inference takes POST"));
    return infer(work, name, version);
  }
  int status = 404;
  std::string why;
  const ServedPtr served = repository_.find(name, version, &status, &why);
  if (what == "ready")
    return reply(*work, bare_reply(served && !draining_ && served->model->trouble().empty() ? 200 : 400));
  if (what == "generate" || what == "generate_stream") {
    if (get) return reply(*work, wrong_method(kPost, "texts take POST"));
    if (!served) return reply(*work, error_reply(status, why));
    const TextForm form = what == "generate" ? TextForm::kGenerate : TextForm::kGenerateStream;
    auto request = read_texts(*work, form);
    if (!request.ok()) return reply(*work, error_reply(status_of(request.error()), told(request.error())));
    return texts(work, form, served, std::move(*request));
  }
  if (what != "" && what != "config" && what != "stats") return reply(*work, error_reply(404, "no such path"));
  if (!get) return reply(*work, wrong_method(kRead, "this path takes GET"));
  if (!served) return reply(*work, error_reply(status, why));
  if (what.empty())
    return reply(*work,
                 text_reply(describe_model(*served, version.empty() ? repository_.versions(name)
                                                                    : std::vector<int64_t>{served->model->version()})));
  if (what == "config") return reply(*work, text_reply(describe_config(*served)));
  std::vector<ServedPtr> models = {served};
  if (version.empty()) {
    models = repository_.all();
    std::erase_if(models, [&](const ServedPtr& s) { return s->model->name() != name; });
  }
  reply(*work, text_reply(describe_statistics(models)));
}

// The body, decompressed if necessary.
Status Api::read_body(Work& work) {
  const HttpRequest& r = work.exchange->request();
  work.body = r.body;
  work.body_owner = r.body_owner;
  if (const std::string_view wanted = preferred_encoding(r.accept_encoding); !wanted.empty())
    work.accepts = wanted == "gzip" ? Compression::kGzip : Compression::kZlib;
  if (r.content_encoding.empty() || r.content_encoding == "identity") return Ok{};
  const bool gzip = same_field(r.content_encoding, "gzip");
  if (!gzip && !same_field(r.content_encoding, "deflate"))
    return Error(ErrorKind::kUnsupported, "this Content-Encoding is not known").expecting("gzip or deflate, once");
  PERI_ASSIGN(Expanded whole, expand(r.body, gzip ? Compression::kGzip : Compression::kZlib, options_.expanded_bytes,
                                     work.exchange->budget()));
  work.body = whole.bytes;
  work.body_owner = std::move(whole.owner);
  return Ok{};
}

void Api::infer(const std::shared_ptr<Work>& work, std::string_view model, std::string_view version) {
  const HttpRequest& r = work->exchange->request();
  int status = 404;
  std::string why;
  work->served = repository_.find(model, version, &status, &why);
  if (!work->served) return reply(*work, error_reply(status, why));
  if (r.bad_json_bytes)
    return reply(*work, error_reply(400, "Inference-Header-Content-Length is not a number, or given twice"));
  const Model& served = *work->served->model;
  if (const Status body = read_body(*work); !body.ok()) {
    const ErrorKind kind = body.error().kind;
    if (kind == ErrorKind::kRefused) return reply(*work, again_reply(told(body.error())));
    const int code = kind == ErrorKind::kUnsupported ? 415 : kind == ErrorKind::kMemory ? 413 : 400;
    return reply(*work, error_reply(code, told(body.error())));
  }
  auto request = r.form ? r.form->parse(served.inputs(), served.outputs(), options_.limits)
                        : parse_infer(work->body, work->body_owner, r.json_bytes, served.inputs(), served.outputs(),
                                      options_.limits);
  if (request.ok() && !request->step.id.none() && !served.options().sequences) request = stateless();
  if (!request.ok()) {
    const bool unknown = request.error().kind == ErrorKind::kUnsupported;
    return reply(*work, error_reply(unknown ? 501 : 400, told(request.error())));
  }
  work->request = std::move(*request);
  Call& call = work->call;
  call.inputs = std::move(work->request.inputs);
  const int64_t most = work->served->config.max_batch_size;
  for (const Tensor& t : call.inputs)
    if (most > 0 && t.rank() > 0 && (t.dims()[0] > most || t.dims()[0] != call.inputs[0].dims()[0]))
      return reply(*work,
                   error_reply(400, format("inference request batch-size must be <= %lld and the same for all inputs",
                                           static_cast<long long>(most))));
  call.priority = static_cast<int>(work->request.priority);
  call.timeout_ns = work->request.timeout_us * 1000;
  call.step = std::move(work->request.step);
  call.step.id.tenant = call.tenant;
  work->body_owner.reset();
  // The model holds the call, and thereby the work, until it is answered.
  call.done = [this, w = work.get()](Answer a) { answer(*w, std::move(a)); };
  const CallPtr pointer(work, &call);
  answer_later(work);
  const std::shared_ptr<Exchange> exchange = work->exchange;  // the work may be destroyed when submit() returns
  work->served->model->submit(pointer);
  exchange->on_gone([weak = std::weak_ptr<Work>(work)] {
    if (const auto w = weak.lock()) w->served->model->cancel(CallPtr(w, &w->call));
  });
}

Result<TextRequest> Api::read_texts(Work& work, TextForm form) {
  PERI_TRY(read_body(work));
  const std::string_view text(reinterpret_cast<const char*>(work.body.data()), work.body.size());
  return form == TextForm::kEmbeddings ? parse_embeddings(text, options_.text) : parse_generate(text, options_.text);
}

void Api::texts(const std::shared_ptr<Work>& work, TextForm form, ServedPtr served, TextRequest request) {
  work->served = served;
  work->request.id = request.id;
  work->body_owner.reset();
  const std::shared_ptr<Exchange> exchange = work->exchange;
  const auto job = run_texts(form, std::move(served), std::move(request), status_of,
                             [this, work](HttpReply r) { reply(*work, std::move(r)); });
  answer_later(work);
  job->start();
  exchange->on_gone([weak = std::weak_ptr<TextJob>(job)] {
    if (const auto j = weak.lock()) j->cancel();
  });
}

// OpenAI's paths: models with a tokenizer, and their embeddings.
void Api::route_openai(const std::shared_ptr<Work>& work, std::span<const std::string_view> path) {
  const bool get = work->exchange->request().method == "GET";
  int status = 404;
  std::string why;
  if (path.size() == 1 && path[0] == "models" && get) return reply(*work, text_reply(list_models(repository_.all())));
  if (path.size() == 2 && path[0] == "models" && get) {
    const ServedPtr served = repository_.find(path[1], "", &status, &why);
    if (!served) return reply(*work, openai_error(status, why, status == 404 ? "model_not_found" : ""));
    const auto answer = TextJob::answer_of(*served);  // only those are listed
    return reply(*work, answer.ok() ? text_reply(show_model(*served))
                                    : openai_error(404, told(answer.error()), "model_not_found"));
  }
  const bool models = !path.empty() && path[0] == "models" && path.size() <= 2;
  if (!models && (path.size() != 1 || path[0] != "embeddings")) return reply(*work, openai_error(404, "no such path"));
  if (models || work->exchange->request().method != "POST") {
    HttpReply no = openai_error(405, models ? "models are read by GET" : "embeddings take POST");
    no.allow = models ? kRead : kPost;
    return reply(*work, std::move(no));
  }
  auto request = read_texts(*work, TextForm::kEmbeddings);
  if (!request.ok()) return reply(*work, openai_error(status_of(request.error()), told(request.error())));
  ServedPtr served = repository_.find(request->model, "", &status, &why);
  if (!served) return reply(*work, openai_error(status, why, status == 404 ? "model_not_found" : ""));
  texts(work, TextForm::kEmbeddings, std::move(served), std::move(*request));
}

void Api::answer(Work& work, Answer a) {
  HttpReply out;
  {
    const std::lock_guard<std::mutex> lock(work.mutex);
    if (work.replied) return;  // given up
    out = reply_of(work, std::move(a));
  }
  reply(work, std::move(out));
}

HttpReply Api::reply_of(Work& work, Answer a) {
  if (RequestRecord* r = work.record.get()) {
    r->queued_ns = a.arrived_ns;
    r->began_ns = a.began_ns;
    r->joined_ns = a.joined_ns;
    r->ended_ns = a.ended_ns;
    r->batch_rows = a.batch_rows;
    r->cut = a.cut;
    r->cached = a.cached;
  }
  work.call.inputs.clear();
  if (a.error) {
    HttpReply out = error_reply(status_of(*a.error), told(*a.error));
    if (a.retry_after_ns > 0) out.retry_after_s = (a.retry_after_ns + 999'999'999) / 1'000'000'000;
    return out;
  }
  const Model& model = *work.served->model;
  InferForm* form = work.exchange->request().form;
  auto made = contained([&]() -> Result<HttpReply> {
    PERI_TRY(answer_classes(*work.served, work.request.outputs, &a.outputs));
    const auto ports = model.outputs();
    return form ? form->reply(model.name(), model.version_text(), work.request, ports, std::move(a.outputs))
                : infer_reply(model.name(), model.version_text(), work.request, ports, std::move(a.outputs));
  });
  if (!made.ok()) return error_reply(status_of(made.error()), told(made.error()));
  if (work.accepts && made->body_bytes() >= 256) {
    Compressor c(*work.accepts);
    c.add(std::as_bytes(std::span(made->text)));
    for (const HttpReply::Piece& p : made->pieces) c.add(p.bytes);
    made->text = c.finish();
    made->pieces.clear();
    made->content_encoding = *work.accepts == Compression::kGzip ? "gzip" : "deflate";
  }
  return std::move(*made);
}

}  // namespace peri::serve
