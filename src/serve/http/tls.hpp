// TLS between a socket's bytes and a connection's: bytes go in and come out, and no socket is used here. Only this
// folder uses OpenSSL.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.hpp"

namespace peri::serve {

// A server's certificate and key, or what a client trusts. Any thread may begin sessions. TLS 1.2 and 1.3.
class TlsContext {
 public:
  // PEM files; HTTP/1.1. Errors name the file; kRefused where others may read the key.
  static Result<std::shared_ptr<TlsContext>> open(const std::string& certificate, const std::string& key);
  // Of clients: servers with a certificate of one of these authorities, a PEM file; "": of those the system trusts.
  // Without `verify` any server is taken.
  static Result<std::shared_ptr<TlsContext>> trust(const std::string& authorities, bool verify);
  virtual ~TlsContext() = default;
};

// One connection's session.
class TlsSession {
 public:
  static Result<std::unique_ptr<TlsSession>> begin(const std::shared_ptr<TlsContext>& context);
  // A client's, with a context of trust(): the server must be `host` and speak `protocol`, "http/1.1" or "h2".
  static Result<std::unique_ptr<TlsSession>> call(const std::shared_ptr<TlsContext>& context, const std::string& host,
                                                  std::string_view protocol);
  virtual ~TlsSession() = default;
  // Takes what came from the socket. False: it is no TLS, or the session has failed.
  virtual bool feed(std::span<const std::byte> bytes) = 0;
  // What the other side said: how many bytes; 0: none yet. Negative: it has ended or failed.
  virtual int64_t read(std::span<std::byte> to) = 0;
  // Says something. False: the session has failed. REQUIRES of a client: ready().
  virtual bool write(std::span<const std::byte> bytes) = 0;
  virtual bool ready() = 0;                 // the two sides have agreed; goes on with that as far as it can
  virtual std::string failure() const = 0;  // why it has failed
  virtual void end() = 0;                   // says that nothing follows
  // Appends what is to be sent on the socket.
  virtual void take_output(std::string* out) = 0;
};

}  // namespace peri::serve
