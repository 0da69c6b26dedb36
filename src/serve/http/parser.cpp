// Uses the parser of Boost.Beast, whose headers only this file includes. Folded fields are refused: their views would
// point to memory that is released, and RFC 9112 permits it. Fields of a trailer are counted and not read.
#include "serve/http/parser.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <limits>

namespace peri::serve {

namespace http = boost::beast::http;
using boost::system::error_code;
using Text = boost::beast::string_view;

static std::string_view plain(Text text) { return {text.data(), text.size()}; }

// "http://host:8000/v2" means "/v2", as RFC 9112 requires of servers.
static std::string_view origin_form(std::string_view target) {
  const size_t colon = target.find("://");
  if (colon == std::string_view::npos ||
      !(same_field(target.substr(0, colon), "http") || same_field(target.substr(0, colon), "https")))
    return target;
  const size_t path = target.find_first_of("/?", colon + 3);
  return path == std::string_view::npos ? "/" : target.substr(path);
}

struct RequestParser::Grammar final : http::basic_parser<true> {
  RequestHead head;
  RequestParser* owner = nullptr;
  const char* memory = nullptr;  // the bytes of the current put()
  size_t memory_bytes = 0;
  bool old = false;

 private:
  bool lies_inside(Text v) const {
    return v.empty() || (v.data() >= memory && v.data() + v.size() <= memory + memory_bytes);
  }
  void on_request_impl(http::verb, Text method, Text target, int version, error_code&) override {
    old = version < 11;
    head.request.method = plain(method);
    head.request.target = origin_form(plain(target));
  }
  void on_response_impl(int, Text, int, error_code& ec) override { ec = http::error::bad_field; }
  void on_field_impl(http::field, Text name, Text value, error_code& ec) override {
    const bool trailer = is_header_done();
    if (!lies_inside(value) || !(trailer ? head.count() : head.take(plain(name), plain(value))))
      ec = http::error::bad_field;
  }
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<uint64_t>&, error_code&) override {}
  size_t on_body_impl(Text body, error_code&) override { return body.size(); }
  void on_chunk_header_impl(uint64_t, Text, error_code& ec) override {
    if (++head.chunks > owner->limits_.chunks) ec = http::error::body_limit;
  }
  size_t on_chunk_body_impl(uint64_t, Text body, error_code& ec) override {
    if (!owner->chunk(plain(body))) ec = http::error::body_limit;
    return body.size();
  }
  void on_finish_impl(error_code&) override {}
};

RequestParser::RequestParser(const HttpLimits& limits)
    : limits_(limits), grammar_(std::make_unique<std::optional<Grammar>>()) {
  begin();
}
RequestParser::~RequestParser() = default;

void RequestParser::begin() {
  Grammar& g = grammar_->emplace();
  g.header_limit(limits_.header_bytes);
  g.body_limit(std::numeric_limits<uint64_t>::max());  // the caller limits bodies
  g.head.most_fields = limits_.header_fields;
  g.owner = this;
}

RequestParser::Found RequestParser::put(const char* bytes, size_t count, size_t* taken) {
  Grammar& g = **grammar_;
  g.memory = bytes;
  g.memory_bytes = count;
  const bool was_header = g.is_header_done();
  error_code ec;
  size_t done = 0;
  do {
    // Beast 1.74 asserts that the final chunk, once begun, has its five bytes ("0" and two line ends): fewer are
    // incomplete.
    if (was_header && count - done < 5) break;
    const size_t n = g.put(boost::asio::const_buffer(bytes + done, count - done), ec);
    done += n;
    if (n == 0) break;
  } while (!ec && done < count && (was_header || !g.is_header_done()) && !g.is_done());
  *taken += done;
  if (ec == http::error::need_more) ec = {};
  if (ec) {
    error_ = ec.message();
    const bool large = ec == http::error::header_limit || ec == http::error::body_limit || g.head.too_many;
    return large ? Found::kTooLarge : Found::kBad;
  }
  if (g.is_done()) return Found::kWhole;
  return !was_header && g.is_header_done() ? Found::kHeader : Found::kMore;
}

bool RequestParser::begun() const { return (*grammar_)->got_some(); }
bool RequestParser::old() const { return (*grammar_)->old; }
bool RequestParser::chunked() const { return (*grammar_)->chunked(); }
bool RequestParser::keep_alive() const { return (*grammar_)->keep_alive(); }
RequestHead& RequestParser::head() { return (*grammar_)->head; }
std::string_view RequestParser::error() const { return error_; }
std::optional<uint64_t> RequestParser::content_length() const {
  const auto length = (*grammar_)->content_length();
  return length ? std::optional<uint64_t>(*length) : std::nullopt;
}

}  // namespace peri::serve
