// A connection of the HTTP server and the state that all of them share. It belongs to one thread; its memory is reused
// for all its requests; a body is read directly into its tensors. Only this folder uses Boost.Asio.
#pragma once

#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <set>
#include <thread>

#include "base/clock.hpp"
#include "serve/http/parser.hpp"
#include "serve/http/read_buffer.hpp"
#include "serve/http/tls.hpp"

namespace peri::serve {

using Socket = boost::asio::generic::stream_protocol::socket;

// State shared by all connections of a server.
struct Shared {
  HttpLimits limits;
  Handler handler;
  std::shared_ptr<ByteBudget> bodies;                             // set before the first connection
  std::function<std::optional<HttpReply>(HttpRequest&)> refusal;  // may be null
  std::function<void(const std::string& client, const std::string& why)> refused_client;  // may be null
  ReplyBudget replies;
  std::atomic<int64_t> connections{0};
  std::atomic<bool> draining{false};
};

class Connection;
// A thread and its connections.
struct Loop {
  std::set<Connection*> connections;  // of this thread
  boost::asio::io_context context{1};
  boost::asio::steady_timer sweep{context};
  std::thread thread;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `tls`: the session that encrypts this connection.
  Connection(Loop& loop, Shared& shared, Socket socket, std::unique_ptr<TlsSession> tls = nullptr)
      : loop_(loop),
        shared_(shared),
        socket_(std::move(socket)),
        tls_(std::move(tls)),
        parser_(shared.limits),
        room_(2 * shared.limits.header_bytes),
        buffer_(room_) {
    loop_.connections.insert(this);
  }
  ~Connection() {
    loop_.connections.erase(this);
    release_body();
    release_reply();
    --shared_.connections;
  }
  void start() {
    boost::system::error_code ec;
    (void)socket_.non_blocking(true, ec);
    begin();
    advance();
  }
  // Ends connections that exceed a time limit; with `drain`, idle ones too.
  void sweep(int64_t now, bool drain) {
    boost::system::error_code ec;
    const bool idle = state_ == State::kHead && end_ == begin_;
    // A request may have arrived and not been read, or been read by a call that has not completed.
    const bool nothing = idle && drain && socket_.available(ec) == 0;
    if (nothing && idle_before_) return close();
    idle_before_ = nothing;
    if (now > limit_ns_ && state_ != State::kBusy) close();
  }
  class Turn;
  void reply(Turn* turn, HttpReply& reply);
  // Lets go of an exchange without a reply, which refers to the connection. REQUIRES: the thread of its loop has ended.
  void drop();
  bool closed() const { return closed_; }
  const std::shared_ptr<ByteBudget>& bodies() const { return shared_.bodies; }
  boost::asio::io_context& context() { return loop_.context; }

 private:
  enum class State { kHead, kBody, kChunks, kBusy, kWriting, kLast };
  bool idle_before_ = false;  // at the last sweep of a drain, with no read completed since
  void begin();
  void advance();
  void compact(size_t to);
  void skip_empty_lines();
  bool parse_head();
  bool start_body();
  bool fill_body();
  bool parse_chunks();
  bool dispatch();
  bool take_chunk(std::string_view piece, uint64_t lead);
  bool grow(uint64_t need, uint64_t lead);
  void read();
  void got(bool direct, size_t bytes);
  void read_tls(bool direct, void* to, size_t room);
  void tell_refusal() const;
  bool write_tls_output();
  void encrypt();
  bool refuse(int status, std::string_view why);
  bool refuse_body(std::string_view why);
  void send(HttpReply reply, bool keep_alive);
  void sent(const boost::system::error_code& ec);
  void last();
  void close();
  void ended();
  void heard_end();
  void outlive_end();
  void release_body();
  void release_reply() { shared_.replies.give(std::exchange(held_, 0)); }
  bool claim(uint64_t bytes);
  void allow(int64_t ms, uint64_t bytes = 0) {
    told_ns_ = now_ns();
    limit_ns_ = told_ns_ + ms * 1000000 + static_cast<int64_t>(bytes) * 1000000000 / shared_.limits.body_bytes_per_s;
  }

  Loop& loop_;
  Shared& shared_;
  Socket socket_;
  const std::unique_ptr<TlsSession> tls_;
  std::string cipher_;                    // encrypted bytes to be written
  std::unique_ptr<std::byte[]> records_;  // received TLS records
  RequestParser parser_;
  const size_t room_;
  const ReadBuffer buffer_;
  size_t begin_ = 0, end_ = 0;     // of bytes received and not processed
  size_t start_ = 0, header_ = 0;  // of the request's header, which views point into
  State state_ = State::kHead;
  std::shared_ptr<BodyMemory> body_;
  uint64_t body_want_ = 0, body_have_ = 0, claimed_ = 0, held_ = 0;
  std::string_view no_room_;  // why the rest of this body has no memory
  bool reading_ = false, advancing_ = false, keep_alive_ = true, closed_ = false;
  bool head_alone_ = false;                  // HEAD: the reply has a body length but no body
  bool no_more_ = false, watching_ = false;  // the client has half-closed; the end of its connection is awaited
  int64_t limit_ns_ = 0, told_ns_ = 0, first_byte_ns_ = 0;
  std::shared_ptr<Turn> turn_;
  HttpReply reply_;
  std::string head_;
  std::vector<boost::asio::const_buffer> out_;
};

}  // namespace peri::serve
