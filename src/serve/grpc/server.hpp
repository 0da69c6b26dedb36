// gRPC: passes calls of KServe v2 to the same handler as HTTP requests. Includes no header of the library.
#pragma once

#include "serve/grpc/wire.hpp"
#include "serve/http/message.hpp"

namespace peri::serve {

struct GrpcOptions {
  std::string address = "127.0.0.1";
  int port = 0;                  // 0: any free one; negative: no TCP
  std::string unix_socket;       // a path; empty: none
  std::string certificate, key;  // PEM: the port speaks TLS; empty: it does not. The socket never does
  int threads = 1;
  HttpLimits limits;      // body_bytes: of a message; header_bytes, all_body_bytes, header_ms and idle_ms likewise
  MessageLimits message;  // of what is no raw contents
  int streams = 1000;     // calls at once on a connection
  int ahead = 64;         // requests of a stream that are under way at once
  // HTTP's status for whether a model (empty: the server) is ready, for who watches it; null: it never changes. Asked
  // when a watch begins and after changed().
  std::function<int(std::string_view)> ready = nullptr;
  // Why who asks so, by the metadata "authorization", is let in no further than to liveness; "": he is let in, and this
  // is his key (HttpRequest::key). null: everybody is. Asked once a call, before a message is read.
  std::function<std::string(std::string_view authorization, uint32_t* key)> refuses = nullptr;
  int64_t ping_ms = 300000;  // pings may come no more often; a connection that sends a third too early is closed
};

// A server that has begun. Destroyed, it ends every call. REQUIRES: no exchange is replied to afterwards.
class GrpcServer {
 public:
  // Errors: kIo (the port is taken), kUnsupported (a build without gRPC).
  static Result<std::unique_ptr<GrpcServer>> start(const GrpcOptions& options, Handler handler);
  virtual ~GrpcServer() = default;
  virtual int port() const = 0;
  // What `ready` says may be another now: who watches is told. From any thread, and at little cost.
  virtual void changed() = 0;
  // Takes no more calls; those that are open are answered, at most for so long.
  virtual void drain(int64_t seconds) = 0;
};

}  // namespace peri::serve
