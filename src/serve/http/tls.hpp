// TLS between a socket's bytes and a connection's: bytes go in and come out, and no socket is seen here. OpenSSL stands
// in this room alone.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.hpp"

namespace peri::serve {

// A server's certificate and key. Any thread may begin sessions.
class TlsContext {
 public:
  // PEM files; TLS 1.2 and 1.3, HTTP/1.1. Errors name the file; kRefused where others may read the key.
  static Result<std::shared_ptr<TlsContext>> open(const std::string& certificate, const std::string& key);
  virtual ~TlsContext() = default;
};

// One connection's session.
class TlsSession {
 public:
  static Result<std::unique_ptr<TlsSession>> begin(const std::shared_ptr<TlsContext>& context);
  virtual ~TlsSession() = default;
  // Takes what came from the socket. False: it is no TLS, or the session has failed.
  virtual bool feed(std::span<const std::byte> bytes) = 0;
  // What the other side said: how many bytes; 0: none yet. Negative: it has ended or failed.
  virtual int64_t read(std::span<std::byte> to) = 0;
  // Says something. False: the session has failed.
  virtual bool write(std::span<const std::byte> bytes) = 0;
  virtual void end() = 0;  // says that nothing follows
  // Appends what is to be sent on the socket.
  virtual void take_output(std::string* out) = 0;
};

}  // namespace peri::serve
