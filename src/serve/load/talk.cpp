// Single requests: one exchange on a blocking socket with a time limit.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.hpp"
#include "serve/load/reply_parser.hpp"
#include "serve/load/wire.hpp"

namespace peri::serve {

namespace {
// The endpoint, time limit and cancellation of an exchange.
struct Talk {
  const Endpoint& where;
  int64_t until_ns;
  const std::function<bool()>& stop;
};

// Waits until the socket is readable or writable; signals without cancellation are ignored.
Status wait_for(int fd, short what, const Talk& talk) {
  pollfd p{fd, what, 0};
  while (true) {
    const int64_t left_ms = (talk.until_ns - now_ns()) / 1000000;
    const int n = left_ms > 0 ? poll(&p, 1, static_cast<int>(std::min<int64_t>(left_ms, 1 << 30))) : 0;
    if (n > 0) return Ok{};
    if (n == 0 || errno != EINTR) return io_error("%s did not answer in time", talk.where.text().c_str());
    if (talk.stop && talk.stop()) return Error(ErrorKind::kCancelled, "interrupted");
  }
}

Status say(int fd, std::string_view bytes, const Talk& talk) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (n < 0 && errno == EAGAIN) {
      PERI_TRY(wait_for(fd, POLLOUT, talk));
    } else {
      return io_error("cannot send to %s: %s", talk.where.text().c_str(), std::strerror(errno))
          .advise("is a server listening there?");
    }
  }
  return Ok{};
}

// An HTTP request whose response is kept.
class Asked final : public Wire {
 public:
  Asked(std::string request, size_t max_bytes) : request_(std::move(request)) {
    parser_.body = [this, max_bytes](std::string_view piece) {
      if (answer.body.size() + piece.size() > max_bytes) return false;
      answer.body += piece;
      return true;
    };
  }
  void begin() override { parser_.begin(); }
  std::string_view ask() override { return request_; }
  Heard hear(std::string_view bytes) override { return heard(parser_.put(bytes, nullptr)); }
  Heard closed() override { return heard(parser_.end()); }
  std::string failure() const override { return ""; }
  std::string trouble() const override { return "no whole answer in HTTP/1.1; is it the port of another protocol?"; }
  bool keep_open() const override { return false; }
  HttpAnswer answer;

 private:
  Heard heard(ReplyParser::Found found) {
    answer.status = parser_.status();
    using Found = ReplyParser::Found;
    return found == Found::kWhole ? Heard::kAnswer : found == Found::kMore ? Heard::kMore : Heard::kBad;
  }
  const std::string request_;
  ReplyParser parser_;
};

// Forwards to a wire owned by the caller.
class Lent final : public Wire {
 public:
  explicit Lent(Wire& to) : to_(to) {}
  void begin() override { to_.begin(); }
  std::string_view ask() override { return to_.ask(); }
  Heard hear(std::string_view bytes) override { return to_.hear(bytes); }
  std::string_view more() override { return to_.more(); }
  Heard closed() override { return to_.closed(); }
  std::string failure() const override { return to_.failure(); }
  std::string said() const override { return to_.said(); }
  std::string trouble() const override { return to_.trouble(); }
  bool keep_open() const override { return to_.keep_open(); }

 private:
  Wire& to_;
};
}  // namespace

Status talk_once(const Endpoint& where, Wire& given, int64_t timeout_ms, const std::function<bool()>& stop) {
  const Talk talk{where, now_ns() + timeout_ms * 1000000, stop};
  std::unique_ptr<Wire> wire = std::make_unique<Lent>(given);
  if (where.secure) wire = over_tls(std::move(wire), where, where.grpc ? "h2" : "http/1.1");
  PERI_ASSIGN(const Fd fd, connect_to(where));
  wire->begin();
  PERI_TRY(wait_for(fd.get(), POLLOUT, talk));
  PERI_TRY(say(fd.get(), wire->ask(), talk));
  char room[16384];
  while (true) {
    for (std::string_view out; !(out = wire->more()).empty();) PERI_TRY(say(fd.get(), out, talk));
    const ssize_t n = recv(fd.get(), room, sizeof room, 0);
    if (n < 0 && errno == EAGAIN) {
      PERI_TRY(wait_for(fd.get(), POLLIN, talk));
      continue;
    }
    if (n < 0) return io_error("%s broke off: %s", where.text().c_str(), std::strerror(errno));
    const Wire::Heard heard = n == 0 ? wire->closed() : wire->hear({room, static_cast<size_t>(n)});
    if (heard == Wire::Heard::kAnswer) return Ok{};
    if (heard != Wire::Heard::kBad) continue;
    const std::string why = wire->trouble();
    Error bad = io_error("%s: %s", where.text().c_str(), why.c_str());
    if (why.find("certificate required") != std::string::npos || why.find("of the client") != std::string::npos ||
        why.find("alert unknown ca") != std::string::npos)
      return std::move(bad).advise(
          "give a certificate that the server trusts by --ssl-https-client-certificate-file FILE, and its key by "
          "--ssl-https-private-key-file FILE");
    if (why.starts_with("TLS: ") && why.find("certificate") != std::string::npos)
      return std::move(bad).advise("trust who signed it with --ssl-https-ca-certificates-file FILE");
    return bad;
  }
}

Result<HttpAnswer> http_ask(const Endpoint& where, std::string_view method, std::string_view path,
                            std::string_view body, std::string_view content_type, int64_t timeout_ms, size_t max_bytes,
                            const std::function<bool()>& stop) {
  std::string out(method);
  out.append(" ").append(path).append(" HTTP/1.1\r\n").append(where.fields());
  out += "Connection: close\r\nContent-Length: " + std::to_string(body.size());
  if (!body.empty()) out.append("\r\nContent-Type: ").append(content_type);
  out.append("\r\n\r\n").append(body);
  Asked asked(std::move(out), max_bytes);
  PERI_TRY(talk_once(where, asked, timeout_ms, stop));
  return std::move(asked.answer);
}

}  // namespace peri::serve
