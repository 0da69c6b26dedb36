// A wire within a TLS session: its output waits until the handshake is complete.
#include "serve/http/tls.hpp"
#include "serve/load/wire.hpp"

namespace peri::serve {
namespace {

class TlsWire final : public Wire {
 public:
  TlsWire(std::unique_ptr<Wire> inner, const Endpoint& where, std::string_view protocol)
      : inner_(std::move(inner)), context_(where.tls), host_(where.host), protocol_(protocol) {}
  void begin() override {
    inner_->begin();
    unsent_.clear();
    out_.clear();
    answered_ = false;
    auto made = TlsSession::call(context_, host_, protocol_);
    session_ = made.ok() ? std::move(*made) : nullptr;
  }
  std::string_view ask() override {
    unsent_ += inner_->ask();
    return more();
  }
  Heard hear(std::string_view bytes) override {
    if (!session_ || !session_->feed(std::as_bytes(std::span(bytes)))) return Heard::kBad;
    Heard out = Heard::kMore;
    while (true) {
      const int64_t n = session_->read(std::as_writable_bytes(std::span(room_)));
      if (n == 0) break;
      if (n < 0) return out == Heard::kAnswer ? out : ended();
      answered_ = true;
      const Heard heard = inner_->hear({room_, static_cast<size_t>(n)});
      if (heard == Heard::kBad) return heard;
      if (heard == Heard::kAnswer) out = heard;
    }
    return out;
  }
  std::string_view more() override {
    out_.clear();
    if (!session_) return out_;
    if (session_->ready()) {
      unsent_ += inner_->more();
      (void)session_->write(std::as_bytes(std::span(unsent_)));
      unsent_.clear();
    }
    session_->take_output(&out_);
    return out_;
  }
  Heard closed() override { return ended(); }
  std::string failure() const override { return inner_->failure(); }
  std::string said() const override { return inner_->said(); }
  std::string wrong() const override { return inner_->wrong(); }
  std::string trouble() const override {
    if (!session_) return "TLS cannot be set up";
    const std::string why = session_->failure();
    if (!why.empty()) return "TLS: " + why;
    // Servers of gRPC may close the connection of a client that they refuse without telling why.
    return answered_ || !session_->ready()
               ? inner_->trouble()
               : "TLS: the server closed the connection at once; it may ask for a certificate of the client";
  }
  bool keep_open() const override { return inner_->keep_open(); }

 private:
  // An orderly end of the session counts as the end of the connection.
  Heard ended() { return session_ && session_->failure().empty() ? inner_->closed() : Heard::kBad; }

  const std::unique_ptr<Wire> inner_;
  const std::shared_ptr<TlsContext> context_;
  const std::string host_, protocol_;
  std::unique_ptr<TlsSession> session_;
  std::string unsent_, out_;
  bool answered_ = false;  // bytes of the server arrived within the session
  char room_[16384];
};
}  // namespace

std::unique_ptr<Wire> over_tls(std::unique_ptr<Wire> inner, const Endpoint& where, std::string_view protocol) {
  return std::make_unique<TlsWire>(std::move(inner), where, protocol);
}

}  // namespace peri::serve
