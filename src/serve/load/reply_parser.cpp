// A head that arrives in one piece, the usual case, is parsed in place.
#include "serve/load/reply_parser.hpp"

#include <algorithm>
#include <charconv>

#include "serve/http/head.hpp"

namespace peri::serve {

namespace {
constexpr size_t kMaxHead = 65536;

template <class T>
bool number_of(std::string_view text, T* out, int base = 10) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), *out, base);
  return !text.empty() && read.ec == std::errc() && read.ptr == text.data() + text.size();
}
}  // namespace

void ReplyParser::begin() {
  state_ = State::kHead;
  kept_.clear();
  status_ = 0;
  keep_alive_ = true;
  left_ = body_bytes_ = json_bytes_ = 0;
}

bool ReplyParser::read_head(std::string_view head) {
  if (head.size() < 12 || !head.starts_with("HTTP/1.") || head[8] != ' ' || !number_of(head.substr(9, 3), &status_))
    return false;
  keep_alive_ = head[7] != '0';
  bool length = false, chunked = false;
  for (size_t at = std::min(head.find("\r\n"), head.size()); at + 2 < head.size();) {
    const size_t next = std::min(head.find("\r\n", at + 2), head.size());
    const std::string_view line = head.substr(at + 2, next - at - 2);
    at = next;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return false;
    const std::string_view name = line.substr(0, colon);
    std::string_view value = line.substr(colon + 1);
    while (value.starts_with(' ')) value.remove_prefix(1);
    while (value.ends_with(' ')) value.remove_suffix(1);
    if (same_field(name, "content-length")) {
      if (!number_of(value, &left_)) return false;
      length = true;
    } else if (same_field(name, "transfer-encoding")) {
      chunked = same_field(value, "chunked");
    } else if (same_field(name, "inference-header-content-length")) {
      if (!number_of(value, &json_bytes_)) return false;
    } else if (same_field(name, "connection")) {
      keep_alive_ = !same_field(value, "close");
    }
  }
  if (status_ / 100 == 1) {
    state_ = State::kHead;  // the final response follows
  } else if (chunked) {
    state_ = State::kChunkSize;
  } else if (length || status_ == 204 || status_ == 304) {
    state_ = left_ > 0 ? State::kLength : State::kWhole;
  } else {
    state_ = State::kToEnd;
    keep_alive_ = false;
  }
  return true;
}

bool ReplyParser::take(std::string_view piece) {
  body_bytes_ += piece.size();
  return !body || body(piece);
}

bool ReplyParser::read_line(std::string_view* rest, std::string* line, bool* whole) {
  const size_t end = rest->find('\n');
  *whole = end != std::string_view::npos;
  line->append(rest->substr(0, *whole ? end : rest->size()));
  rest->remove_prefix(*whole ? end + 1 : rest->size());
  if (*whole && line->ends_with('\r')) line->pop_back();
  return line->size() < 1024;
}

ReplyParser::Found ReplyParser::chunks(std::string_view bytes, size_t* used) {
  std::string_view rest = bytes;
  while (!rest.empty() && state_ != State::kWhole) {
    if (state_ == State::kChunk) {
      const size_t n = std::min<uint64_t>(left_, rest.size());
      if (!take(rest.substr(0, n))) return Found::kBad;
      rest.remove_prefix(n);
      left_ -= n;
      if (left_ == 0) state_ = State::kChunkEnd;
      continue;
    }
    bool whole = false;
    if (!read_line(&rest, &kept_, &whole)) return Found::kBad;
    if (!whole) break;
    const std::string line = std::move(kept_);
    kept_.clear();
    if (state_ == State::kChunkEnd) {
      if (!line.empty()) return Found::kBad;
      state_ = State::kChunkSize;
    } else if (state_ == State::kTrailer) {
      if (line.empty()) state_ = State::kWhole;
    } else {
      if (!number_of(std::string_view(line).substr(0, line.find_first_of("; \t")), &left_, 16)) return Found::kBad;
      state_ = left_ > 0 ? State::kChunk : State::kTrailer;
    }
  }
  *used += bytes.size() - rest.size();
  return state_ == State::kWhole ? Found::kWhole : Found::kMore;
}

ReplyParser::Found ReplyParser::put(std::string_view bytes, size_t* taken) {
  size_t used = 0;
  Found found = Found::kMore;
  while (state_ == State::kHead && used < bytes.size()) {
    const std::string_view rest = bytes.substr(used);
    if (kept_.empty()) {
      const size_t end = rest.find("\r\n\r\n");
      used += end == std::string_view::npos ? rest.size() : end + 4;
      if (end == std::string_view::npos)
        kept_ = rest;
      else if (!read_head(rest.substr(0, end)))
        return Found::kBad;
    } else {
      const size_t before = kept_.size();
      kept_ += rest.substr(0, kMaxHead);
      const size_t end = kept_.find("\r\n\r\n", before < 3 ? 0 : before - 3);
      used += end == std::string::npos ? kept_.size() - before : end + 4 - before;
      if (end != std::string::npos) {
        const std::string head = kept_.substr(0, end);
        kept_.clear();
        if (!read_head(head)) return Found::kBad;
      }
    }
    if (kept_.size() > kMaxHead) return Found::kBad;
  }
  const std::string_view rest = bytes.substr(used);
  if (state_ == State::kLength || state_ == State::kToEnd) {
    const size_t n = state_ == State::kToEnd ? rest.size() : std::min<uint64_t>(left_, rest.size());
    if (n > 0 && !take(rest.substr(0, n))) return Found::kBad;
    used += n;
    if (state_ == State::kLength && (left_ -= n) == 0) state_ = State::kWhole;
  } else if (state_ != State::kHead && state_ != State::kWhole) {
    found = chunks(rest, &used);
  }
  if (state_ == State::kWhole) found = Found::kWhole;
  if (taken) *taken = used;
  return found;
}

ReplyParser::Found ReplyParser::end() {
  if (state_ != State::kToEnd) return Found::kBad;
  state_ = State::kWhole;
  return Found::kWhole;
}

}  // namespace peri::serve
