// Spans of a request: the server span, with the children receive, queue, batch, execute and send.
#include <algorithm>
#include <span>

#include "base/json.hpp"
#include "base/version.hpp"
#include "serve/observe/observer.hpp"

namespace peri::serve {
namespace {

template <size_t N>
std::string hex_of(const std::array<uint8_t, N>& id) {
  std::string out;
  for (const uint8_t b : id) {
    out += "0123456789abcdef"[b >> 4];
    out += "0123456789abcdef"[b & 15];
  }
  return out;
}

// The id of a step's span: the request's id combined with the step's number.
std::array<uint8_t, 8> step_id(const std::array<uint8_t, 8>& span, uint8_t step) {
  std::array<uint8_t, 8> out = span;
  for (size_t k = 0; k < out.size(); ++k) out[k] = static_cast<uint8_t>(out[k] ^ (step * (0x35 + 2 * k)));
  out[0] = static_cast<uint8_t>(out[0] ^ step);
  if (out == std::array<uint8_t, 8>{}) out[7] = step;
  return out;
}

class Spans {
 public:
  Spans(JsonWriter& w, int64_t offset) : w_(w), offset_(offset) {}

  void begin(const RequestRecord& r, const std::array<uint8_t, 8>& id, const std::array<uint8_t, 8>& parent,
             std::string_view name, int kind, int64_t from, int64_t to) {
    w_.begin_object().field("traceId", hex_of(r.trace.trace_id)).field("spanId", hex_of(id));
    if (parent != std::array<uint8_t, 8>{}) w_.field("parentSpanId", hex_of(parent));
    w_.field("name", name).field("kind", kind);
    w_.field("startTimeUnixNano", std::to_string(from + offset_));
    w_.field("endTimeUnixNano", std::to_string(std::max(to, from) + offset_));
    w_.key("attributes").begin_array();
  }
  void text(std::string_view key, std::string_view value) {
    w_.begin_object()
        .field("key", key)
        .key("value")
        .begin_object()
        .field("stringValue", value)
        .end_object()
        .end_object();
  }
  void number(std::string_view key, int64_t value) {  // 64-bit integers are strings in OTLP's JSON
    w_.begin_object().field("key", key).key("value").begin_object().field("intValue", std::to_string(value));
    w_.end_object().end_object();
  }
  void end(int status_code = 0) {
    w_.end_array();
    if (status_code) w_.key("status").begin_object().field("code", status_code).end_object();
    w_.end_object();
  }

 private:
  JsonWriter& w_;
  const int64_t offset_;
};

void add_request(const RequestRecord& r, JsonWriter& w, int64_t offset) {
  Spans s(w, offset);
  const int64_t first = r.first_byte_ns > 0 ? r.first_byte_ns : r.handled_ns;
  const int64_t last = r.sent_ns > 0 ? r.sent_ns : r.replied_ns;
  s.begin(r, r.trace.span_id, r.trace.parent_id, r.model.empty() ? r.method : "infer " + r.model, 2, first, last);
  s.text("http.request.method", r.method);
  s.text("url.path", std::string_view(r.target).substr(0, r.target.find('?')));
  s.number("http.response.status_code", r.status);
  s.number("http.response.body.size", static_cast<int64_t>(r.reply_bytes));
  if (!r.model.empty()) {
    s.text("peri.model", r.model);
    s.text("peri.version", r.version);
  }
  if (!r.id.empty()) s.text("peri.request_id", std::string_view(r.id).substr(0, 200));
  s.end(r.status >= 500 ? 2 : 0);
  uint8_t step = 0;
  const auto part = [&](std::string_view name, int64_t from, int64_t to) {
    ++step;
    if (from <= 0 || to <= 0) return false;
    s.begin(r, step_id(r.trace.span_id, step), r.trace.span_id, name, 1, from, to);
    return true;
  };
  if (part("receive", first, r.queued_ns > 0 ? r.queued_ns : r.replied_ns)) s.end();
  if (part(r.cached ? "cache" : "queue", r.queued_ns, r.began_ns)) s.end();
  if (part("batch", r.began_ns, r.joined_ns)) {
    s.number("peri.batch.rows", r.batch_rows);
    s.text("peri.batch.cut", cut_reason_name(r.cut));
    s.end();
  }
  if (part("execute", r.joined_ns, r.ended_ns)) s.end();
  if (part("send", r.ended_ns > 0 ? r.ended_ns : r.replied_ns, r.sent_ns)) s.end();
}
}  // namespace

std::string otlp_json(std::span<const RequestRecord> records, int64_t wall_offset_ns) {
  JsonWriter w;
  w.begin_object().key("resourceSpans").begin_array().begin_object().key("resource").begin_object();
  w.key("attributes").begin_array();
  Spans s(w, 0);
  s.text("service.name", "peri");
  s.text("service.version", version());
  w.end_array().end_object().key("scopeSpans").begin_array().begin_object();
  w.key("scope").begin_object().field("name", "peri.serve").end_object().key("spans").begin_array();
  for (const RequestRecord& r : records) add_request(r, w, wall_offset_ns);
  return w.end_array().end_object().end_array().end_object().end_array().end_object().take();
}

}  // namespace peri::serve
