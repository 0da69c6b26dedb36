// Host names are resolved at each connection.
#include "serve/load/endpoint.hpp"

#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace peri::serve {

// Removes the scheme of a URL. Errors: kUsage: not supported.
static Status take_scheme(std::string_view* url, bool grpc_allowed, Endpoint* out) {
  const size_t end = url->find("://");
  if (end == std::string_view::npos || url->starts_with("unix:")) return Ok{};
  std::string scheme(url->substr(0, end));  // case-insensitive (RFC 3986, 3.1)
  for (char& c : scheme) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  out->grpc = scheme == "grpc" || scheme == "grpcs";
  out->secure = scheme == "https" || scheme == "grpcs";
  if (scheme != "http" && scheme != "https" && !(grpc_allowed && out->grpc))
    return usage("'%s' is of a protocol that is not spoken here", std::string(*url).c_str())

        .expecting(grpc_allowed ? "http://, https://, grpc:// or grpcs:// HOST:PORT, or unix:PATH"
                                : "http:// or https:// HOST:PORT, or unix:PATH");
  if (out->grpc) out->port = 8001;
  url->remove_prefix(end + 3);
  return Ok{};
}

// A host name or address that is valid in a URL; an IPv6 address is in brackets and may have a zone.
static bool is_host(std::string_view host, bool bracketed) {
  const std::string_view signs = bracketed ? ":.%-_" : ".-_";
  return !host.empty() && std::all_of(host.begin(), host.end(), [&](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           signs.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

Error asks_for_key(const Endpoint& where) {
  return refused(where.key.empty() ? "the server asks for a key" : "the server does not know this key")
      .in_file(where.text())
      .advise("give one that it knows: --key-file FILE");
}

Result<Endpoint> Endpoint::parse(std::string_view url, int default_port, bool grpc_allowed) {
  const std::string whole(url);
  Endpoint out;
  out.port = default_port;
  PERI_TRY(take_scheme(&url, grpc_allowed, &out));
  if (url.starts_with("unix:")) {
    out.unix_socket = url.substr(5);
    if (out.unix_socket.starts_with("//")) out.unix_socket.erase(0, 2);
    if (out.unix_socket.empty() || out.unix_socket.size() > 100)
      return usage("'%s' names no socket", whole.c_str()).expecting("unix:/path of at most 100 bytes");
    return out;
  }
  const size_t slash = std::min(url.find('/'), url.size());
  out.path = url.substr(slash);
  while (out.path.ends_with('/')) out.path.pop_back();
  url = url.substr(0, slash);
  size_t colon = url.rfind(':');
  if (url.starts_with('[')) {
    const size_t end = url.find(']');
    if (end == std::string_view::npos) return usage("'%s' is not a URL", whole.c_str()).expecting("http://[::1]:8000");
    out.host = url.substr(1, end - 1);
    colon = end + 1 < url.size() && url[end + 1] == ':' ? end + 1 : std::string_view::npos;
  } else {
    out.host = url.substr(0, std::min(colon, url.size()));
  }
  bool good = is_host(out.host, url.starts_with('['));
  good = good && out.path.find_first_of(" \r\n") == std::string::npos;
  if (colon != std::string_view::npos) {
    const std::string_view digits = url.substr(colon + 1);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), out.port);
    good = good && !digits.empty() && read.ec == std::errc() && read.ptr == digits.data() + digits.size() &&
           out.port > 0 && out.port < 65536;
  }
  if (!good) return usage("'%s' is not a URL of a server", whole.c_str()).expecting("one like http://127.0.0.1:8000");
  if (out.grpc && !out.path.empty())
    return usage("'%s': gRPC has no paths", whole.c_str()).expecting("grpc://HOST:PORT");
  if (out.secure) {
    PERI_ASSIGN(out.tls, TlsContext::trust("", true));
  }
  return out;
}

std::string Endpoint::authority() const {
  if (!unix_socket.empty()) return "localhost";
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}
std::string Endpoint::fields() const {
  std::string out = "Host: " + authority() + "\r\n" + (key.empty() ? "" : "Authorization: Bearer " + key + "\r\n");
  for (const auto& [name, value] : headers) out.append(name).append(": ").append(value).append("\r\n");
  return out;
}

Status Endpoint::add_header(const std::string& text) {
  constexpr size_t kMaxBytes = 8192;  // of all; a head has to fit into a frame of HTTP/2
  constexpr std::string_view kSigns = "!#$%&'*+-.^_`|~";
  constexpr std::string_view kOurs[] = {"host",
                                        "connection",
                                        "keep-alive",
                                        "transfer-encoding",
                                        "upgrade",
                                        "te",
                                        "trailer",
                                        "content-length",
                                        "content-type",
                                        "content-encoding",
                                        "accept-encoding",
                                        "expect",
                                        "inference-header-content-length"};
  const size_t colon = text.find(':');
  std::string name = text.substr(0, colon), value = colon == std::string::npos ? "" : text.substr(colon + 1);
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);  // as HTTP/2 wants them
  value.erase(0, value.find_first_not_of(" \t"));
  while (value.ends_with(' ') || value.ends_with('\t')) value.pop_back();
  const auto in_name = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || kSigns.find(c) != std::string_view::npos;
  };
  const auto in_value = [](char c) { return c == '\t' || (c >= ' ' && c <= '~'); };
  if (colon == std::string::npos || name.empty() || !std::all_of(name.begin(), name.end(), in_name) ||
      !std::all_of(value.begin(), value.end(), in_value))
    return usage("this is not a header field").expecting("NAME:VALUE, of ASCII").but_found(text);
  if (std::find(std::begin(kOurs), std::end(kOurs), name) != std::end(kOurs))
    return usage("the requests have a field '%s' of their own", name.c_str()).advise("leave it out");
  if (name == "authorization" && !key.empty())
    return usage("the key is given, and a header field '%s'", name.c_str()).advise("give one of them");
  size_t bytes = 0;
  headers.emplace_back(std::move(name), std::move(value));
  for (const auto& [n, v] : headers) bytes += n.size() + v.size() + 4;
  if (bytes > kMaxBytes) return usage("the header fields take more than %zu bytes", kMaxBytes);
  return Ok{};
}

Status Endpoint::read_key(const std::string& file) {
  PERI_ASSIGN(const std::string text, read_file(file, 65536));
  key = text.substr(0, text.find_first_of("\r\n"));
  const auto plain = [](char c) { return c > ' ' && c <= '~'; };
  if (key.empty() || !std::all_of(key.begin(), key.end(), plain))
    return invalid("the first line is not a key").expecting("letters, digits and signs, without spaces").in_file(file);
  return Ok{};
}

std::string Endpoint::text() const { return unix_socket.empty() ? authority() + path : "unix:" + unix_socket; }

static Result<Fd> begin_connect(int family, const sockaddr* address, socklen_t bytes, const Endpoint& where) {
  Fd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return io_error("cannot make a socket: %s", std::strerror(errno));
  const int one = 1;
  if (family != AF_UNIX) setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (connect(fd.get(), address, bytes) == 0 || errno == EINPROGRESS) return fd;
  return io_error("cannot connect to %s: %s", where.text().c_str(), std::strerror(errno))
      .advise("is a server listening there?");
}

Result<Fd> connect_to(const Endpoint& where) {
  if (!where.unix_socket.empty()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (where.unix_socket.size() >= sizeof address.sun_path)
      return usage("the name of a socket is too long").but_found(where.unix_socket);
    std::memcpy(address.sun_path, where.unix_socket.data(), where.unix_socket.size());
    return begin_connect(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof address, where);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &hints, &found);
  if (code != 0) return io_error("cannot find the host %s: %s", where.host.c_str(), gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  Result<Fd> out = io_error("the host %s has no address", where.host.c_str());
  for (const addrinfo* a = found; a && !out.ok(); a = a->ai_next)
    out = begin_connect(a->ai_family, a->ai_addr, a->ai_addrlen, where);
  return out;
}

}  // namespace peri::serve
