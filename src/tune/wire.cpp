// Framing, and the two kinds of messages.
#include "tune/wire.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/clock.hpp"
#include "base/hash.hpp"
#include "base/version.hpp"
#include "device/target.hpp"
#include "exec/entry.hpp"
#include "exec/region/region_payload.hpp"
#include "problem/problem.hpp"
#include "tune/cache_keys.hpp"

namespace peri::tune {

namespace {
constexpr uint32_t kMaxBytes = 256u << 20;  // of a message: what is larger is no answer of a worker's

constexpr int kSliceMs = 200;  // so often a wait looks at `stop`

Status wait_for_bytes(int socket, double patience_s, const std::function<bool()>& stop) {
  const int64_t start = now_ns();
  while (true) {
    pollfd ready = {socket, POLLIN, 0};
    const int n = poll(&ready, 1, patience_s < 0 && !stop ? -1 : kSliceMs);
    if (n > 0) return Ok{};
    if (n < 0 && errno != EINTR) return io_error("closed");
    // Clock: a deadline
    if ((stop && stop()) || (patience_s >= 0 && seconds_since(start) > patience_s))
      return Error(ErrorKind::kCancelled, "nothing came");
  }
}

Status receive_bytes(int socket, char* to, size_t bytes, double patience_s, const std::function<bool()>& stop) {
  while (bytes > 0) {
    PERI_TRY(wait_for_bytes(socket, patience_s, stop));  // the other side may stop within a message
    const ssize_t got = recv(socket, to, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return io_error("closed");
    to += got;
    bytes -= static_cast<size_t>(got);
  }
  return Ok{};
}

// Layouts travel as a type's text: rank many ones, and the layout.
std::string layout_text(const ir::Layout& layout, size_t rank) {
  ir::Type t(DType::kF32, Shape(rank, Dim(1)));
  t.layout = layout;
  return ir::type_text(t);
}

Result<std::vector<ir::Layout>> read_layouts(const Json& json, std::string_view key, size_t count) {
  std::vector<ir::Layout> out;
  PERI_ASSIGN(const Json::Array* list, json.get_array(key));
  if (list->size() != count) return invalid("%zu layouts for %zu values", list->size(), count);
  for (const Json& j : *list) {
    PERI_ASSIGN(const std::string_view text, j.as_string());
    PERI_ASSIGN(const ir::Type t, ir::parse_type(text));
    out.push_back(t.layout);
  }
  return out;
}

Result<Candidate> read_candidate(const Json& j, const ir::Graph& region) {
  Candidate c;
  PERI_ASSIGN(const std::string_view name, j.get_string("kernel"));
  c.kernel = kernels::find(name);
  if (!c.kernel) return refused("no kernel '%s'", std::string(name).c_str());
  PERI_ASSIGN(const std::string_view config, j.get_string("config"));
  c.offer.config = config;
  PERI_ASSIGN(c.offer.inputs, read_layouts(j, "inputs", region.inputs.size()));
  PERI_ASSIGN(c.offer.outputs, read_layouts(j, "outputs", region.outputs.size()));
  PERI_ASSIGN(const Json::Array* in_place, j.get_array("in_place"));
  for (const Json& k : *in_place) {
    PERI_ASSIGN(const int64_t input, k.as_int());
    if (input < -1 || input > INT32_MAX) return invalid("no such input");
    c.offer.in_place.push_back(static_cast<int>(input));
  }
  PERI_ASSIGN(c.offer.flops, j.get_double("flops"));
  PERI_ASSIGN(const std::string_view isa, j.get_string("requires_isa"));
  PERI_ASSIGN(const std::string_view library, j.get_string("library"));
  c.offer.requires_isa = isa;
  c.offer.library = library;
  return c;
}
}  // namespace

Status send_text(int socket, const std::string& text) {
  const uint32_t size = static_cast<uint32_t>(text.size());
  if (text.size() >= kMaxBytes) return Error(ErrorKind::kMemory, format("a message of %zu bytes", text.size()));
  std::string frame(reinterpret_cast<const char*>(&size), sizeof size);
  frame += text;
  for (size_t at = 0; at < frame.size();) {
    const ssize_t n = send(socket, frame.data() + at, frame.size() - at, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return io_error("closed");
    at += static_cast<size_t>(n);
  }
  return Ok{};
}

bool is_socket(int descriptor) {
  struct stat st;
  return fstat(descriptor, &st) == 0 && S_ISSOCK(st.st_mode);
}

Result<Json> receive(int socket, double patience_s, const std::function<bool()>& stop) {
  uint32_t size = 0;
  PERI_TRY(receive_bytes(socket, reinterpret_cast<char*>(&size), sizeof size, patience_s, stop));
  if (size >= kMaxBytes) return invalid("a message of %u bytes", size);
  std::string text(size, '\0');
  PERI_TRY(receive_bytes(socket, text.data(), size, patience_s, stop));
  return parse_json(text, {64, kMaxBytes, 0});
}

std::string signature() {
  std::string s = "peri " + std::string(version());
  for (const kernels::Kernel* k : kernels::kernels()) s += " " + samples_key(*k, "");
  for (const std::string& l : exec::libraries()) s += " " + l;
  for (const std::string& i : device::this_cpu().isas) s += " " + i;
  return hex64(hash_text(s));
}

std::string question_text(const ir::Graph& region, const std::vector<bool>& constant,
                          std::span<const Candidate* const> candidates, const Terms& t, bool resolve) {
  JsonWriter w;
  w.begin_object()
      .field("problem", problem::text(region, constant))
      .field("hash", problem::hash(region, constant))
      .field("measure", t.measure)
      .field("verify", t.verify)
      .field("other_dims", t.other_dims)
      .field("resolve", resolve)
      .field("ahead", t.ahead)
      .field("seed", t.seed);
  w.field("budget_ms", t.budget_ms).field("model_bytes", t.model_bytes).key("candidates").begin_array();
  for (const Candidate* c : candidates) {
    w.begin_object().field("kernel", c->kernel->name).field("config", c->offer.config).key("inputs").begin_array();
    for (size_t k = 0; k < region.inputs.size(); ++k)
      w.value(layout_text(c->offer.inputs[k], region.inputs[k]->type.rank()));
    w.end_array().key("outputs").begin_array();
    for (size_t k = 0; k < region.outputs.size(); ++k)
      w.value(layout_text(c->offer.outputs[k], region.outputs[k]->type.rank()));
    w.end_array().key("in_place").begin_array();
    for (int k : c->offer.in_place) w.value(int64_t{k});
    w.end_array()
        .field("flops", c->offer.flops)
        .field("requires_isa", c->offer.requires_isa)
        .field("library", c->offer.library)
        .end_object();
  }
  w.end_array().end_object();
  return w.take();
}

Result<Question> read_question(const Json& json) {
  Question q;
  PERI_ASSIGN(const std::string_view text, json.get_string("problem"));
  PERI_ASSIGN(const std::string_view hash, json.get_string("hash"));
  PERI_ASSIGN(problem::Problem p, problem::parse(text));
  PERI_ASSIGN(q.region, exec::bind_region(p.graph, {}));  // sizes are numbers
  q.constant = std::move(p.weights);
  if (problem::hash(q.region, q.constant) != hash) return invalid("the problem reads differently here");
  PERI_ASSIGN(q.terms.measure, json.get_bool("measure"));
  PERI_ASSIGN(q.terms.verify, json.get_bool("verify"));
  PERI_ASSIGN(q.terms.other_dims, json.get_bool("other_dims"));
  PERI_ASSIGN(q.resolve, json.get_bool("resolve"));
  PERI_ASSIGN(q.terms.ahead, json.get_bool("ahead"));
  PERI_ASSIGN(q.terms.seed, json.get_uint("seed"));
  PERI_ASSIGN(q.terms.budget_ms, json.get_double("budget_ms"));
  PERI_ASSIGN(q.terms.model_bytes, json.get_double("model_bytes"));
  PERI_ASSIGN(const Json::Array* candidates, json.get_array("candidates"));
  for (const Json& j : *candidates) {
    PERI_ASSIGN(Candidate c, read_candidate(j, q.region));
    q.candidates.push_back(std::move(c));
  }
  return q;
}

std::string verdict_text(size_t candidate, const Verdict& v) {
  JsonWriter w;
  w.begin_object().field("candidate", static_cast<int64_t>(candidate)).field("lasting", v.lasting);
  w.field("tried", v.tried).key("evidence");
  write_evidence(w, v.evidence);
  w.end_object();
  return w.take();
}

Result<Verdict> read_verdict(const Json& json) {
  Verdict v;
  PERI_ASSIGN(v.lasting, json.get_bool("lasting"));
  PERI_ASSIGN(v.tried, json.get_bool("tried"));
  PERI_ASSIGN(const Json* evidence, json.get("evidence"));
  PERI_ASSIGN(v.evidence, read_evidence(*evidence));
  return v;
}

std::string samples_text(const SampleVerdict& v) {
  JsonWriter w;
  w.begin_object()
      .field("right", v.samples)
      .field("left_out", v.left_out)
      .field("unmade", v.unmade)
      .field("failed", v.failed)
      .field("lasting", v.lasting)
      .key("spent");
  write_spent(w, v.spent);
  w.end_object();
  return w.take();
}

Result<SampleVerdict> read_samples(const Json& json) {
  SampleVerdict v;
  PERI_ASSIGN(v.samples, json.get_int("right"));
  PERI_ASSIGN(v.left_out, json.get_int("left_out"));
  PERI_ASSIGN(v.unmade, json.get_int("unmade"));
  PERI_ASSIGN(const std::string_view failed, json.get_string("failed"));
  PERI_ASSIGN(v.lasting, json.get_bool("lasting"));
  v.failed = failed;
  if (const Json* const spent = json.find("spent")) {
    PERI_ASSIGN(v.spent, read_spent(*spent));
  }
  for (const int64_t n : {v.samples, v.left_out, v.unmade})
    if (n < 0) return invalid("%lld samples", static_cast<long long>(n));
  return v;
}

std::string one_field(std::string_view name, std::string_view value) {
  JsonWriter w;
  w.begin_object().field(name, value).end_object();
  return w.take();
}

}  // namespace peri::tune
