// Endpoint: where a server listens, from a URL, and sockets to it. Whole exchanges that may block, for what is asked
// once: metadata, metrics, spans to a collector.
#pragma once

#include <functional>
#include <map>

#include "base/file.hpp"
#include "serve/http/tls.hpp"

namespace peri::serve {

struct Endpoint {
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string unix_socket;  // in place of both
  std::string path;         // of the URL, without a slash at its end
  std::string key;          // sent as a bearer's, where there is one
  bool grpc = false;
  bool secure = false;              // TLS
  std::shared_ptr<TlsContext> tls;  // what it trusts; null where it is not secure

  // "http://host:port/path", "https://...", "host:port", "host", "[::1]:8000", "unix:/path"; where gRPC is allowed,
  // "grpc://host:port" and "grpcs://..." too, of port 8001. Trusts what the system does. Errors: kUsage.
  static Result<Endpoint> parse(std::string_view url, int default_port, bool grpc_allowed = false);
  std::string text() const;       // "127.0.0.1:8000", for people
  std::string authority() const;  // for the field Host
  std::string fields() const;     // Host and Authorization, each with the end of its line
  // The key is the first line of a file. Errors: kInvalid: it could end a field of a header.
  Status read_key(const std::string& file);
};

// A socket that is being connected, non-blocking. Errors: kIo: no such host, refused at once.
Result<Fd> connect_to(const Endpoint& where);

// Of one that answers 401.
Error asks_for_key(const Endpoint& where);

struct HttpAnswer {
  int status = 0;
  std::string body;
};
// One request of HTTP and its answer on a connection of its own. Errors: kIo, after `timeout_ms` too; kCancelled where
// a signal comes and `stop` says so.
Result<HttpAnswer> http_ask(const Endpoint& where, std::string_view method, std::string_view path,
                            std::string_view body = "", std::string_view content_type = "application/json",
                            int64_t timeout_ms = 10000, size_t max_bytes = size_t{64} << 20,
                            const std::function<bool()>& stop = nullptr);

}  // namespace peri::serve
