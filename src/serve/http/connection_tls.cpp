// TLS for a connection: received records are passed to the session, whose output is sent before anything else.
#include <netdb.h>

#include <cstring>

#include <boost/asio/post.hpp>

#include "serve/http/connection.hpp"

namespace peri::serve {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr size_t kRecords = 32768;

// Decrypted bytes are delivered first, through the event loop, which bounds the depth of the stack.
void Connection::read_tls(bool direct, void* to, size_t room) {
  const int64_t n = tls_->read({static_cast<std::byte*>(to), room});
  const auto self = shared_from_this();
  const bool told = write_tls_output();
  if (n != 0 || !told) {
    return asio::post(loop_.context, [self, direct, n, told] {
      self->reading_ = false;
      if (self->closed_) return;
      if (n < 0) self->tell_refusal();
      if (n < 0 || !told) return self->ended();
      self->got(direct, static_cast<size_t>(n));
    });
  }
  if (!records_) records_ = std::make_unique<std::byte[]>(kRecords);
  socket_.async_read_some(asio::buffer(records_.get(), kRecords), [self](const error_code& ec, size_t got) {
    self->reading_ = false;
    if (self->closed_) return;
    if (ec || !self->tls_->feed({self->records_.get(), got})) return self->ended();
    self->read();
  });
}

// Tells of a client whose certificate was not accepted.
void Connection::tell_refusal() const {
  const std::string why = tls_->refusal();
  if (why.empty() || !shared_.refused_client) return;
  error_code ec;
  const auto peer = socket_.remote_endpoint(ec);
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
  if (!ec)
    (void)getnameinfo(peer.data(), static_cast<socklen_t>(peer.size()), host, sizeof host, port, sizeof port,
                      NI_NUMERICHOST | NI_NUMERICSERV);
  shared_.refused_client(*host ? format(strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port) : "", why);
}

// Handshake and control records are small: if they do not fit into the socket's buffer, the connection is closed.
// During a write of a reply they are sent with the next one. False: they could not be written.
bool Connection::write_tls_output() {
  if (state_ == State::kWriting) return true;
  std::string out;
  tls_->take_output(&out);
  error_code ec;
  return out.empty() || (socket_.write_some(asio::buffer(out), ec) == out.size() && !ec);
}

// Encrypts the pending output. A failed session has no output, and the connection ends.
void Connection::encrypt() {
  for (const asio::const_buffer& b : out_)
    if (!tls_->write({static_cast<const std::byte*>(b.data()), b.size()})) keep_alive_ = false;
  cipher_.clear();
  tls_->take_output(&cipher_);
  out_.assign(1, asio::buffer(cipher_));
}

}  // namespace peri::serve
