// Most requests and replies are one piece: one read, one write, no allocation except the exchange.
#include "serve/http/connection.hpp"

#include <poll.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <cstring>

namespace peri::serve {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr uint64_t kLastBytes = 1 << 20;  // bytes read after a refusal, at least
constexpr std::string_view kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";

// One exchange; outlives its connection if the client disconnects before the model answers.
class Connection::Turn final : public Exchange, public std::enable_shared_from_this<Turn> {
 public:
  explicit Turn(std::shared_ptr<Connection> c)
      : connection_(c), context_(c->context()), thread_(std::this_thread::get_id()) {}
  const HttpRequest& request() const override { return request_; }
  void reply(HttpReply reply) override {
    if (replied_.exchange(true)) return;
    if (std::this_thread::get_id() == thread_) return deliver(reply);
    asio::post(context_, [self = shared_from_this(), r = std::move(reply)]() mutable { self->deliver(r); });
  }
  void on_gone(std::function<void()> gone) override { gone_ = std::move(gone); }
  std::shared_ptr<ByteBudget> budget() const override { return connection_ ? connection_->bodies() : nullptr; }
  void go() {
    connection_.reset();
    if (const auto gone = std::exchange(gone_, nullptr); gone && !replied_) gone();
  }
  void drop() {
    connection_.reset();
    gone_ = nullptr;
  }
  HttpRequest request_;

 private:
  void deliver(HttpReply& reply) {
    gone_ = nullptr;
    if (const auto c = std::exchange(connection_, nullptr)) c->reply(this, reply);
  }
  std::shared_ptr<Connection> connection_;  // accessed on the connection's thread only, like gone_
  asio::io_context& context_;
  const std::thread::id thread_;
  std::function<void()> gone_;
  std::atomic<bool> replied_{false};
};

void Connection::begin() {
  state_ = State::kHead;
  head_alone_ = false;
  parser_.begin();
  skip_empty_lines();
  if (begin_ == end_ && !reading_) begin_ = end_ = 0;
  allow(end_ > begin_ ? shared_.limits.header_ms : shared_.limits.idle_ms);
}

// Processes the received bytes as far as possible. A reply that is given at once re-enters here; the outer call then
// continues.
void Connection::advance() {
  if (advancing_) return;
  advancing_ = true;
  const auto self = shared_from_this();
  bool more = true;
  while (more && !closed_) {
    if (state_ == State::kHead)
      more = parse_head();
    else if (state_ == State::kBody)
      more = fill_body();
    else if (state_ == State::kChunks)
      more = parse_chunks();
    else
      more = false;
  }
  advancing_ = false;
  if (!closed_) read();
}

// Moves unprocessed bytes to `to`. REQUIRES: no read into the buffer is in progress.
void Connection::compact(size_t to) {
  std::memmove(buffer_.get() + to, buffer_.get() + begin_, end_ - begin_);
  end_ -= begin_ - to;
  begin_ = to;
}

// Clients may send an empty line after a body (RFC 9112, 2.2). REQUIRES: no request has begun.
void Connection::skip_empty_lines() {
  while (end_ - begin_ >= 2 && std::memcmp(buffer_.get() + begin_, "\r\n", 2) == 0) begin_ += 2;
}

bool Connection::parse_head() {
  if (!parser_.begun()) skip_empty_lines();
  if (begin_ == end_) return false;
  if (!parser_.begun()) {  // from here on, views point into the buffer
    if (!reading_) compact(0);
    if (end_ - begin_ == 1 && buffer_.get()[begin_] == '\r') return false;  // half of a line end
    start_ = begin_;
    allow(shared_.limits.header_ms);
    first_byte_ns_ = told_ns_;
  }
  auto found = parser_.put(buffer_.get() + begin_, end_ - begin_, &begin_);
  header_ = begin_;
  using Found = RequestParser::Found;
  if (found == Found::kMore && end_ < room_) return false;
  if (found == Found::kMore && start_ > 0 && !reading_) {  // no space left: restart at the beginning
    begin_ = start_;
    parser_.begin();
    return true;
  }
  if (found == Found::kMore || header_ - start_ > shared_.limits.header_bytes) found = Found::kTooLarge;
  if (found == Found::kTooLarge)
    return refuse(431,
                  "the request's header is larger than this server takes (--max-header-bytes, --max-header-fields)");
  if (found == Found::kBad) return refuse(400, "not an HTTP/1.1 request: " + std::string(parser_.error()));
  return start_body();
}

bool Connection::claim(uint64_t bytes) {
  if (!shared_.bodies->take(bytes)) return false;
  claimed_ += bytes;
  return true;
}

bool Connection::start_body() {
  const HttpLimits& limits = shared_.limits;
  const bool chunked = parser_.chunked();
  keep_alive_ = parser_.keep_alive();
  head_alone_ = parser_.head().request.method == "HEAD";
  body_want_ = chunked ? 0 : parser_.content_length().value_or(0);
  body_have_ = 0;
  const int hosts = parser_.head().hosts;
  if (hosts > 1 || (hosts == 0 && !parser_.old()))
    return refuse(400, "a request of HTTP/1.1 has one Host field: expected 1, found " + std::to_string(hosts));
  if (parser_.head().unknown_expectation) return refuse(400, "the only expectation known is 100-continue");
  if (body_want_ > limits.body_bytes)
    return refuse(
        413, format("a body of %llu bytes: this server takes %llu (--max-body-bytes)",
                    static_cast<unsigned long long>(body_want_), static_cast<unsigned long long>(limits.body_bytes)));
  if (!chunked && body_want_ == 0) return dispatch();
  if (auto no = shared_.refusal ? shared_.refusal(parser_.head().request) : std::nullopt) {
    send(std::move(*no), false);
    return false;
  }
  if (!claim(body_want_)) return refuse_body(shared_.bodies->refusal(body_want_));
  if (!body_ || body_.use_count() > 1) body_ = std::make_shared<BodyMemory>();
  const uint64_t lead = parser_.head().request.json_bytes.value_or(0) % 64;
  if (!body_->reserve(chunked ? 4096 : body_want_, lead)) return refuse(503, "no memory for the request's body");
  allow(limits.body_ms, body_want_);
  if (parser_.head().expect_continue && begin_ == end_) {
    error_code ec;
    if (!tls_)
      socket_.write_some(asio::buffer(kGoOn), ec);
    else if (!tls_->write(std::as_bytes(std::span(kGoOn))) || !write_tls_output())
      close();
  }
  state_ = chunked ? State::kChunks : State::kBody;
  if (chunked) parser_.chunk = [this, lead](std::string_view piece) { return take_chunk(piece, lead); };
  return true;
}

// The memory of a chunked body is taken from the budget, not only the bytes received. It doubles; if the budget does
// not permit that, it grows by an eighth.
bool Connection::grow(uint64_t need, uint64_t lead) {
  const uint64_t most = std::min(shared_.limits.body_bytes, shared_.bodies->most()), now = body_->capacity();
  if (need > most) return false;
  const auto hold = [&](uint64_t wanted) {
    const uint64_t bytes = std::clamp(wanted, need, most);
    return bytes <= claimed_ || claim(bytes - claimed_);
  };
  if (need <= now) return hold(now);  // memory of the previous request
  if (!hold(2 * now) && !hold(now + now / 8)) return false;
  return body_->reserve(claimed_, lead);
}

bool Connection::take_chunk(std::string_view piece, uint64_t lead) {
  const uint64_t need = body_have_ + piece.size();
  if (need > shared_.limits.body_bytes) return false;
  if (!grow(need, lead)) {
    no_room_ = shared_.bodies->refusal(need);
    return false;
  }
  std::memcpy(body_->data() + body_have_, piece.data(), piece.size());
  body_have_ = need;
  limit_ns_ += static_cast<int64_t>(piece.size()) * 1000000000 / shared_.limits.body_bytes_per_s;
  return true;
}

bool Connection::fill_body() {
  const size_t n = std::min<uint64_t>(end_ - begin_, body_want_ - body_have_);
  std::memcpy(body_->data() + body_have_, buffer_.get() + begin_, n);
  begin_ += n;
  body_have_ += n;
  return body_have_ == body_want_ && dispatch();
}

// The header stays in place; chunks are received after it in a cycle.
bool Connection::parse_chunks() {
  using Found = RequestParser::Found;
  const Found found = begin_ < end_ ? parser_.put(buffer_.get() + begin_, end_ - begin_, &begin_) : Found::kMore;
  if (found == Found::kTooLarge && !no_room_.empty()) return refuse_body(std::exchange(no_room_, {}));
  if (found == Found::kTooLarge)
    return refuse(
        413,
        "the body, or the number of its chunks, is larger than this server takes (--max-body-bytes, --max-chunks)");
  if (found == Found::kBad) return refuse(400, "the body is not in chunks as HTTP/1.1 has them");
  if (found == Found::kWhole) return dispatch();
  if (reading_) return false;
  compact(header_);
  return end_ == room_ && refuse(400, "a chunk's header or trailer is too long");
}

bool Connection::dispatch() {
  state_ = State::kBusy;
  turn_ = std::make_shared<Turn>(shared_from_this());
  turn_->request_ = parser_.head().request;
  if (head_alone_) turn_->request_.method = "GET";
  turn_->request_.head_alone = head_alone_;
  turn_->request_.first_byte_ns = first_byte_ns_;
  if (body_have_ > 0) {
    turn_->request_.body = {body_->data(), body_have_};
    turn_->request_.body_owner = body_;
  }
  shared_.handler(std::shared_ptr<Turn>(turn_));
  return true;
}

void Connection::read() {
  if (reading_ || closed_) return;
  if (no_more_) return outlive_end();
  const bool direct = state_ == State::kBody && begin_ == end_;
  if (state_ == State::kLast) begin_ = end_ = 0;  // received bytes are discarded
  if (!direct && begin_ == end_ && state_ == State::kHead && !parser_.begun()) begin_ = end_ = 0;
  if (state_ == State::kBusy && begin_ == end_) begin_ = end_ = header_;  // the body has its own memory
  const size_t room = direct ? body_want_ - body_have_ : room_ - end_;
  if (room == 0) return;
  void* to = direct ? static_cast<void*>(body_->data() + body_have_) : buffer_.get() + end_;
  reading_ = true;
  idle_before_ = false;
  if (tls_) return read_tls(direct, to, room);
  socket_.async_read_some(asio::buffer(to, room), [self = shared_from_this(), direct](const error_code& ec, size_t n) {
    self->reading_ = false;
    if (self->closed_) return;
    if (ec) return ec == asio::error::eof ? self->heard_end() : self->ended();
    self->got(direct, n);
  });
}

void Connection::got(bool direct, size_t bytes) {
  (direct ? body_have_ : end_) += bytes;
  if (state_ == State::kLast && (body_have_ += bytes) > std::max(kLastBytes, shared_.limits.body_bytes)) return close();
  advance();
}

// No more bytes will arrive: a reply in progress is still written; everything else ends.
void Connection::ended() {
  keep_alive_ = false;
  if (state_ != State::kWriting) close();
}

// No more bytes will arrive, but the client may still read: complete requests are answered.
void Connection::heard_end() {
  no_more_ = true;
  read();
}

// A half-closed connection may be fully closed, which shows as a reset when something is sent: an interim response,
// which HTTP/1.1 clients skip. On a Unix socket it shows at once.
void Connection::outlive_end() {
  if (state_ == State::kWriting) return;
  if (state_ != State::kBusy) return close();
  if (watching_) return;
  error_code ec;
  if (socket_.local_endpoint(ec).protocol().family() != AF_UNIX && !parser_.old())
    socket_.write_some(asio::buffer(kGoOn), ec);
  pollfd now = {socket_.native_handle(), 0, 0};
  if ((ec && ec != asio::error::would_block) || poll(&now, 1, 0) > 0) return close();
  watching_ = true;
  socket_.async_wait(Socket::wait_error, [self = shared_from_this()](const error_code& e) {
    self->watching_ = false;
    if (!e && !self->closed_) self->close();
  });
}

void Connection::reply(Turn* turn, HttpReply& reply) {
  if (closed_ || turn_.get() != turn) return;
  turn_->request_.body_owner.reset();
  turn_.reset();
  const bool last = no_more_ && begin_ == end_;
  const bool keep = keep_alive_ && !reply.close && !shared_.draining && !last;
  send(std::move(reply), keep);
}

void Connection::drop() {
  closed_ = true;
  if (const auto turn = std::exchange(turn_, nullptr)) turn->drop();
}

bool Connection::refuse(int status, std::string_view why) {
  HttpReply reply = error_reply(status, why);
  if (status == 503) reply.retry_after_s = 1;
  send(std::move(reply), false);
  return false;
}

// For a body that does not fit the budget now, or at all.
bool Connection::refuse_body(std::string_view why) { return refuse(why == kNeverFits ? 413 : 503, why); }

// Most replies fit into the socket's buffer: they are written immediately, not through the event loop.
void Connection::send(HttpReply reply, bool keep_alive) {
  keep_alive_ = keep_alive;
  const auto held = shared_.replies.take(reply.body_bytes(), shared_.limits.all_body_bytes);
  held_ = held.value_or(0);
  if (!held) {
    reply = error_reply(503, kUnread);
    reply.retry_after_s = 1;
  }
  reply_ = std::move(reply);
  head_.clear();
  write_head(reply_, !keep_alive ? After::kClosed : parser_.old() ? After::kSaidOpen : After::kOpen, &head_);
  if (head_alone_) {
    reply_.text.clear();
    reply_.pieces.clear();
  }
  out_.clear();
  out_.emplace_back(head_.data(), head_.size());
  if (!reply_.text.empty()) out_.emplace_back(reply_.text.data(), reply_.text.size());
  for (const HttpReply::Piece& p : reply_.pieces) out_.emplace_back(p.bytes.data(), p.bytes.size());
  if (tls_) encrypt();
  state_ = State::kWriting;
  error_code ec;
  size_t done = socket_.write_some(out_, ec);
  if (ec && ec != asio::error::would_block) return sent(ec);
  while (!out_.empty() && done >= out_.front().size()) {
    done -= out_.front().size();
    out_.erase(out_.begin());
  }
  if (out_.empty()) return sent({});
  out_.front() += done;
  allow(shared_.limits.write_ms, reply_.body_bytes());
  asio::async_write(socket_, out_, [self = shared_from_this()](const error_code& e, size_t) { self->sent(e); });
}

void Connection::sent(const error_code& ec) {
  if (closed_) return;
  if (ec) return close();
  reply_.pieces.clear();
  reply_.until_sent.reset();
  release_reply();
  release_body();
  if (!keep_alive_) return last();  // an unaware client may have sent more; otherwise the sweep closes
  begin();
  advance();
}

// Closing a socket with unread bytes resets it and may discard the reply: the rest is read for a limited time.
void Connection::last() {
  state_ = State::kLast;
  body_have_ = 0;
  error_code ec;
  if (tls_) {
    tls_->end();
    (void)write_tls_output();
  }
  (void)socket_.shutdown(Socket::shutdown_send, ec);
  allow(1000);
  read();
}

void Connection::release_body() {
  if (claimed_ > 0) shared_.bodies->give(std::exchange(claimed_, 0));
  if (body_ && body_->capacity() > 1 << 20) body_.reset();  // a large body is unusual, or still in use by a run
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  const auto self = shared_from_this();
  error_code ec;
  (void)socket_.close(ec);
  if (const auto turn = std::exchange(turn_, nullptr)) turn->go();
}

}  // namespace peri::serve
