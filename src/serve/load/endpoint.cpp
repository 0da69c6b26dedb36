// Names are looked up each time: nothing here is asked often.
#include "serve/load/endpoint.hpp"

#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/clock.hpp"
#include "serve/load/reply_parser.hpp"

namespace peri::serve {

Result<Endpoint> Endpoint::parse(std::string_view url, int default_port) {
  const std::string whole(url);
  Endpoint out;
  out.port = default_port;
  if (url.starts_with("unix:")) {
    out.unix_socket = url.substr(5);
    if (out.unix_socket.starts_with("//")) out.unix_socket.erase(0, 2);
    if (out.unix_socket.empty() || out.unix_socket.size() > 100)
      return usage("'%s' names no socket", whole.c_str()).expecting("unix:/path of at most 100 bytes");
    return out;
  }
  if (url.starts_with("https://"))
    return usage("'%s' asks for TLS, which is not spoken here", whole.c_str()).expecting("http://HOST:PORT");
  if (url.starts_with("http://")) url.remove_prefix(7);
  const size_t slash = std::min(url.find('/'), url.size());
  out.path = url.substr(slash);
  while (out.path.ends_with('/')) out.path.pop_back();
  url = url.substr(0, slash);
  size_t colon = url.rfind(':');
  if (url.starts_with('[')) {
    const size_t end = url.find(']');
    if (end == std::string_view::npos) return usage("'%s' is no URL", whole.c_str()).expecting("http://[::1]:8000");
    out.host = url.substr(1, end - 1);
    colon = end + 1 < url.size() && url[end + 1] == ':' ? end + 1 : std::string_view::npos;
  } else {
    out.host = url.substr(0, std::min(colon, url.size()));
  }
  bool good = !out.host.empty() && out.host.find_first_of(" \r\n@?#") == std::string::npos;
  good = good && out.path.find_first_of(" \r\n") == std::string::npos;
  if (colon != std::string_view::npos) {
    const std::string_view digits = url.substr(colon + 1);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), out.port);
    good = good && !digits.empty() && read.ec == std::errc() && read.ptr == digits.data() + digits.size() &&
           out.port > 0 && out.port < 65536;
  }
  if (!good) return usage("'%s' is no URL of a server", whole.c_str()).expecting("one like http://127.0.0.1:8000");
  return out;
}

std::string Endpoint::authority() const {
  if (!unix_socket.empty()) return "localhost";
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}
std::string Endpoint::fields() const {
  return "Host: " + authority() + "\r\n" + (key.empty() ? "" : "Authorization: Bearer " + key + "\r\n");
}

Status Endpoint::read_key(const std::string& file) {
  PERI_ASSIGN(const std::string text, read_file(file, 65536));
  key = text.substr(0, text.find_first_of("\r\n"));
  const auto plain = [](char c) { return c > ' ' && c <= '~'; };
  if (key.empty() || !std::all_of(key.begin(), key.end(), plain))
    return invalid("the first line is no key").expecting("letters, digits and signs, without spaces").in_file(file);
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

namespace {
// Waits until the socket may be read or written.
Status wait_for(int fd, short what, int64_t until_ns, const Endpoint& where) {
  pollfd p{fd, what, 0};
  const int64_t left_ms = (until_ns - now_ns()) / 1000000;
  const int n = left_ms > 0 ? poll(&p, 1, static_cast<int>(std::min<int64_t>(left_ms, 1 << 30))) : 0;
  if (n <= 0) return io_error("%s did not answer in time", where.text().c_str());
  return Ok{};
}
}  // namespace

Result<HttpAnswer> http_ask(const Endpoint& where, std::string_view method, std::string_view path,
                            std::string_view body, std::string_view content_type, int64_t timeout_ms,
                            size_t max_bytes) {
  const int64_t until = now_ns() + timeout_ms * 1000000;
  PERI_ASSIGN(const Fd fd, connect_to(where));
  std::string out(method);
  out.append(" ").append(path).append(" HTTP/1.1\r\n").append(where.fields());
  out += "Connection: close\r\nContent-Length: " + std::to_string(body.size());
  if (!body.empty()) out.append("\r\nContent-Type: ").append(content_type);
  out.append("\r\n\r\n").append(body);
  PERI_TRY(wait_for(fd.get(), POLLOUT, until, where));
  for (size_t sent = 0; sent < out.size();) {
    const ssize_t n = send(fd.get(), out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
    if (n > 0) {
      sent += static_cast<size_t>(n);
    } else if (n < 0 && errno == EAGAIN) {
      PERI_TRY(wait_for(fd.get(), POLLOUT, until, where));
    } else {
      return io_error("cannot send to %s: %s", where.text().c_str(), std::strerror(errno))
          .advise("is a server listening there?");
    }
  }
  HttpAnswer answer;
  ReplyParser parser;
  parser.body = [&](std::string_view piece) {
    if (answer.body.size() + piece.size() > max_bytes) return false;
    answer.body += piece;
    return true;
  };
  char room[16384];
  while (true) {
    const ssize_t n = recv(fd.get(), room, sizeof room, 0);
    if (n < 0 && errno == EAGAIN) {
      PERI_TRY(wait_for(fd.get(), POLLIN, until, where));
      continue;
    }
    if (n < 0) return io_error("%s broke off: %s", where.text().c_str(), std::strerror(errno));
    const ReplyParser::Found found = n == 0 ? parser.end() : parser.put({room, static_cast<size_t>(n)}, nullptr);
    answer.status = parser.status();
    if (found == ReplyParser::Found::kWhole) return answer;
    if (found == ReplyParser::Found::kBad) return io_error("%s gave no whole answer in HTTP/1.1", where.text().c_str());
  }
}

}  // namespace peri::serve
