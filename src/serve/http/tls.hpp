// TLS sessions over memory: records go in and come out, and no socket is used here. Only this folder uses OpenSSL.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.hpp"

namespace peri::serve {

// PEM files of a certificate, with what leads to its authority, and of its private key; empty: none.
struct TlsFiles {
  std::string certificate, key;
};

// A server's certificate and key, or the authorities that a client trusts. Immutable: threads may begin sessions of one
// context at the same time. TLS 1.2 and 1.3.
class TlsContext {
 public:
  // PEM files; HTTP/1.1. With `clients`, a file of authorities, every client must have a certificate of one of them.
  // Errors name the file; kRefused if others may read the key.
  static Result<std::shared_ptr<TlsContext>> open(const TlsFiles& own, const std::string& clients = "");
  // For clients: accepts servers with a certificate of one of these authorities (a PEM file; "": those of the system).
  // Without `verify` every certificate is accepted. `own`: for servers that ask for the client's. Errors as of open().
  static Result<std::shared_ptr<TlsContext>> trust(const std::string& authorities, bool verify,
                                                   const TlsFiles& own = {});
  virtual ~TlsContext() = default;
};

// The session of one connection. Not thread-safe: it may change threads, with one call at a time. Sessions of one
// context may be used at the same time. A session keeps its context.
class TlsSession {
 public:
  // A server session; `context` is from open().
  static Result<std::unique_ptr<TlsSession>> begin(const std::shared_ptr<TlsContext>& context);
  // A client session; `context` is from trust(). The server must be `host` and support `protocol`, "http/1.1" or "h2".
  static Result<std::unique_ptr<TlsSession>> call(const std::shared_ptr<TlsContext>& context, const std::string& host,
                                                  std::string_view protocol);
  virtual ~TlsSession() = default;
  // Takes bytes received from the socket. False: not TLS, or the session has failed.
  virtual bool feed(std::span<const std::byte> bytes) = 0;
  // Reads decrypted bytes; returns their number; 0: none yet. Negative: the session has ended or failed.
  virtual int64_t read(std::span<std::byte> to) = 0;
  // Encrypts bytes to be sent. False: the session has failed. REQUIRES: the handshake is complete.
  virtual bool write(std::span<const std::byte> bytes) = 0;
  virtual bool ready() = 0;                 // the handshake is complete; advances it if possible
  virtual std::string failure() const = 0;  // the reason of a failure
  // Of a server session that failed: why the client's certificate was not accepted; "": it failed otherwise.
  virtual std::string refusal() const = 0;
  virtual void end() = 0;  // sends close_notify
  // Appends the bytes to be sent on the socket.
  virtual void take_output(std::string* out) = 0;
};

}  // namespace peri::serve
