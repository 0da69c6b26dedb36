// An invalid traceparent is ignored: this server begins the trace.
#include "serve/observe/record.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/json.hpp"

namespace peri::serve {
namespace {

int digit_of(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

// Lower-case hexadecimal, not all zeros.
template <size_t N>
bool read_id(std::string_view text, std::array<uint8_t, N>* out) {
  if (text.size() != 2 * N) return false;
  for (size_t k = 0; k < N; ++k) {
    const int high = digit_of(text[2 * k]), low = digit_of(text[2 * k + 1]);
    if (high < 0 || low < 0) return false;
    (*out)[k] = static_cast<uint8_t>(high << 4 | low);
  }
  return std::any_of(out->begin(), out->end(), [](uint8_t b) { return b != 0; });
}
}  // namespace

bool read_traceparent(std::string_view field, TraceContext* out) {
  TraceContext read;
  if (field.size() < 55 || field[2] != '-' || field[35] != '-' || field[52] != '-') return false;
  const int version = digit_of(field[0]) * 16 + digit_of(field[1]);
  if (digit_of(field[0]) < 0 || digit_of(field[1]) < 0 || version == 255) return false;
  if (version == 0 ? field.size() != 55 : field.size() > 55 && field[55] != '-') return false;
  const int high = digit_of(field[53]), low = digit_of(field[54]);
  if (high < 0 || low < 0 || !read_id(field.substr(3, 32), &read.trace_id) ||
      !read_id(field.substr(36, 16), &read.parent_id))
    return false;
  read.sampled = (low & 1) != 0;
  *out = read;
  return true;
}

std::string access_line(const RequestRecord& r, int64_t wall) {
  JsonWriter w;
  w.begin_object().field("time", utc_text(wall)).field("method", r.method).field("target", r.target);
  w.field("status", r.status).field("reply_bytes", r.reply_bytes);
  w.field("duration_us", (r.replied_ns - r.handled_ns) / 1000);
  if (!r.model.empty()) w.field("model", r.model).field("version", r.version);
  if (!r.id.empty()) w.field("id", std::string_view(r.id).substr(0, 200));
  if (r.cached) {
    w.field("cached", true);
  } else if (r.began_ns > 0) {
    w.field("queue_us", (r.began_ns - r.queued_ns) / 1000);
    if (r.ended_ns > r.began_ns) w.field("run_us", (r.ended_ns - r.began_ns) / 1000);
    if (r.joined_ns > 0) w.field("batch_rows", r.batch_rows).field("cut", cut_reason_name(r.cut));
  }
  if (r.trace.sampled) {
    std::string hex;
    for (const uint8_t b : r.trace.trace_id) {
      hex += "0123456789abcdef"[b >> 4];
      hex += "0123456789abcdef"[b & 15];
    }
    w.field("trace_id", hex);
  }
  return w.end_object().take();
}

}  // namespace peri::serve
