// Endpoint: the address of a server, from a URL, and sockets to it. Blocking exchanges for single requests: metadata,
// metrics, spans to a collector.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "serve/http/tls.hpp"

namespace peri::serve {

struct Endpoint {
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string unix_socket;                                   // instead of host and port
  std::string path;                                          // of the URL, without a trailing slash
  std::string key;                                           // sent as a bearer token; "": none
  std::vector<std::pair<std::string, std::string>> headers;  // further fields of each request, of gRPC metadata
  bool grpc = false;
  bool secure = false;              // TLS
  std::shared_ptr<TlsContext> tls;  // the trusted authorities; null without TLS

  // "http://host:port/path", "https://...", "host:port", "host", "[::1]:8000", "unix:/path"; if gRPC is allowed,
  // "grpc://host:port" and "grpcs://..." too, with default port 8001. Trusts the system's authorities. Errors: kUsage.
  static Result<Endpoint> parse(std::string_view url, int default_port, bool grpc_allowed = false);
  std::string text() const;       // "127.0.0.1:8000", for messages
  std::string authority() const;  // value of the field Host
  std::string fields() const;     // Host, Authorization and `headers`, each with its line end
  // Reads the key from the first line of a file. Errors: kIo; kInvalid: it contains characters not allowed in a header
  // field.
  Status read_key(const std::string& file);
  // "NAME: VALUE". Errors: kUsage: not of this form; a field that the requests have of their own; too many bytes.
  Status add_header(const std::string& text);
};

// A non-blocking socket whose connection is in progress. Errors: kIo: unknown host, connection refused; kUsage: the
// name of the Unix socket is too long.
Result<Fd> connect_to(const Endpoint& where);

// The error for a server that replies 401.
Error asks_for_key(const Endpoint& where);

struct HttpAnswer {
  int status = 0;
  std::string body;
};
// Sends one HTTP request on its own connection and waits for the reply. Errors: kIo, also after `timeout_ms`;
// kCancelled: a signal arrived and `stop` returned true.
Result<HttpAnswer> http_ask(const Endpoint& where, std::string_view method, std::string_view path,
                            std::string_view body = "", std::string_view content_type = "application/json",
                            int64_t timeout_ms = 10000, size_t max_bytes = size_t{64} << 20,
                            const std::function<bool()>& stop = nullptr);

}  // namespace peri::serve
