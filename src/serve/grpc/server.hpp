// gRPC: passes calls of KServe v2 to the same handler as HTTP requests. Includes no header of the gRPC library.
#pragma once

#include "serve/grpc/wire.hpp"
#include "serve/http/message.hpp"

namespace peri::serve {

struct GrpcOptions {
  std::string address = "127.0.0.1";
  int port = 0;                  // 0: any free port; negative: no TCP
  std::string unix_socket;       // a path; empty: none
  std::string certificate, key;  // PEM: TLS on the port, never on the Unix socket; empty: no TLS
  std::string client_ca;         // PEM of authorities: clients must have a certificate of one; empty: none is asked for
  // Called for each client whose handshake failed while certificates are asked for, on any thread; may be null.
  std::function<void(const std::string& why)> refused_client = nullptr;
  int threads = 1;
  HttpLimits limits;      // body_bytes limits a message; the others apply as for HTTP
  MessageLimits message;  // limits of a message without its raw contents
  int streams = 1000;     // concurrent calls per connection
  int ahead = 64;         // concurrent requests per stream
  // HTTP status of the readiness of a model (empty: of the server), for health watches; null: constant. Called when a
  // watch begins and after changed(), from any thread.
  std::function<int(std::string_view)> ready = nullptr;
  // Checks the metadata "authorization": returns the reason of a refusal, which leaves only liveness permitted, or ""
  // and sets the key (HttpRequest::key). Null: everyone is permitted. Called once per call, before a message is read.
  std::function<std::string(std::string_view authorization, uint32_t* key)> refuses = nullptr;
  int64_t ping_ms = 300000;  // minimum interval of pings; a connection whose third ping is too early is closed
};

// A running server. The destructor ends every call. REQUIRES: no exchange is replied to afterwards.
class GrpcServer {
 public:
  // Errors: kIo (the port is in use), kUnsupported (built without gRPC).
  static Result<std::unique_ptr<GrpcServer>> start(const GrpcOptions& options, Handler handler);
  virtual ~GrpcServer() = default;
  virtual int port() const = 0;
  // The result of `ready` may have changed: watching clients are notified. Thread-safe and inexpensive.
  virtual void changed() = 0;
  // Accepts no more calls; open ones are answered for at most `seconds`.
  virtual void drain(int64_t seconds) = 0;
};

}  // namespace peri::serve
