// RequestRecord: the history of a request, step by step: the source of its line in the log and of its spans.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "serve/queue/scheduler.hpp"

namespace peri::serve {

// A request's position in a trace (W3C Trace Context, level 1).
struct TraceContext {
  bool sampled = false;
  std::array<uint8_t, 16> trace_id{};
  std::array<uint8_t, 8> parent_id{};  // the caller's span; zeros: this server began the trace
  std::array<uint8_t, 8> span_id{};    // of this request
};
// Reads the caller's ids and sampling flag from the field "traceparent". False: it is invalid.
bool read_traceparent(std::string_view field, TraceContext* out);

struct RequestRecord {
  std::string method, target, model, version, id;
  TraceContext trace;
  int status = 0;
  uint64_t reply_bytes = 0;
  // Monotonic times in this order; 0: not reached.
  int64_t first_byte_ns = 0, handled_ns = 0, queued_ns = 0, began_ns = 0, joined_ns = 0, ended_ns = 0, replied_ns = 0,
          sent_ns = 0;
  int64_t batch_rows = 0;
  CutReason cut = CutReason::kAlone;
  bool cached = false;  // the answer is one that was given before
};

// One line of JSON.
std::string access_line(const RequestRecord& record, int64_t wall_seconds);

}  // namespace peri::serve
