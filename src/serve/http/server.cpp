// Listening sockets and threads of the HTTP server, and time limits of connections.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <future>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "serve/http/accept_rest.hpp"
#include "serve/http/connection.hpp"

namespace peri::serve {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr int kBacklog = 4096;  // connections that the kernel queues until they are accepted

// Whether a server listens on the socket of this name.
bool answers(const std::string& name) {
  struct stat seen{};
  if (lstat(name.c_str(), &seen) != 0 || !S_ISSOCK(seen.st_mode)) return true;
  asio::io_context context;
  asio::local::stream_protocol::socket socket(context);
  error_code ec;
  return socket.connect(asio::local::stream_protocol::endpoint(name), ec) != asio::error::connection_refused;
}

class Server final : public HttpServer {
 public:
  ~Server() override {
    for (auto& loop : loops_) loop->context.stop();
    for (auto& loop : loops_)
      if (loop->thread.joinable()) loop->thread.join();
    for (auto& loop : loops_)
      for (const auto& c : all_of(*loop)) c->drop();
    if (!unix_socket_.empty()) unlink(unix_socket_.c_str());
  }
  Status open(const HttpOptions& options, Handler handler) {
    shared_.limits = options.limits;
    shared_.bodies = std::make_shared<ByteBudget>(options.limits.all_body_bytes);
    shared_.handler = std::move(handler);
    shared_.refusal = options.refusal;
    shared_.refused_client = options.refused_client;
    tls_ = options.tls;
    for (int k = 0; k < std::max(1, options.threads); ++k) loops_.push_back(std::make_unique<Loop>());
    error_code ec;
    if (options.port >= 0) PERI_TRY(listen_tcp(options));
    if (!options.unix_socket.empty()) {
      if (options.unix_socket.size() > 100)
        return usage("the name of a socket has at most 100 bytes").in_file(options.unix_socket);
      const auto where = asio::local::stream_protocol::endpoint(options.unix_socket);
      local_.emplace(loops_[0]->context);
      const auto failed = [&] {
        return io_error("cannot listen on a socket of this name: %s", ec.message().c_str())
            .in_file(options.unix_socket);
      };
      if (local_->open(where.protocol(), ec)) return failed();
      if (!answers(options.unix_socket)) unlink(options.unix_socket.c_str());  // left by a server that was killed
      if (local_->bind(where, ec)) return failed();
      unix_socket_ = options.unix_socket;
      if (options.unix_mode != 0 && chmod(options.unix_socket.c_str(), options.unix_mode) != 0)
        return os_error("set the rights of", options.unix_socket);
      if (local_->listen(kBacklog, ec)) return failed();
      accept(*local_);
    }
    for (auto& loop : loops_) {
      sweep(*loop);
      loop->thread = std::thread([c = &loop->context, ask = options.guest, linger = options.linger_ns] {
        if (const auto guest = ask ? ask() : nullptr)
          turn(*c, *guest, linger);
        else
          c->run();
      });
    }
    return Ok{};
  }
  int port() const override { return port_; }
  int64_t connections() const override { return shared_.connections; }
  // REQUIRES: not called on one of the server's threads.
  void drain() override {
    shared_.draining = true;
    std::promise<void> taken;
    asio::post(loops_[0]->context, [this, &taken] {
      if (tcp_) take_rest(*tcp_);
      if (local_) take_rest(*local_);
      // Connections accepted earlier may still be queued on this loop.
      asio::post(loops_[0]->context, [&taken] { taken.set_value(); });
    });
    taken.get_future().wait();  // from here on connections() includes every connection
  }

 private:
  Status listen_tcp(const HttpOptions& options) {
    error_code ec;
    const auto address = asio::ip::make_address(options.address, ec);
    if (ec)
      return usage("'%s' is not an address to listen on", options.address.c_str())
          .expecting("one like 127.0.0.1, 0.0.0.0 or ::1");
    const asio::ip::tcp::endpoint where(address, static_cast<uint16_t>(options.port));
    tcp_.emplace(loops_[0]->context);
    if (tcp_->open(where.protocol(), ec) || tcp_->set_option(asio::socket_base::reuse_address(true), ec) ||
        tcp_->bind(where, ec) || tcp_->listen(kBacklog, ec))
      return io_error("cannot listen on %s:%d: %s", options.address.c_str(), options.port, ec.message().c_str())
          .advise(ec.value() == EADDRNOTAVAIL
                      ? "name an address that this machine has, 127.0.0.1 or 0.0.0.0 for all of them"
                      : "give --http-port, or --metrics-port for metrics, another one, or 0 for any that is free");
    port_ = tcp_->local_endpoint(ec).port();
    accept(*tcp_);
    return Ok{};
  }
  template <class Acceptor>
  void accept(Acceptor& acceptor) {
    Loop& loop = *loops_[next_++ % loops_.size()];
    const auto socket = std::make_shared<typename Acceptor::protocol_type::socket>(loop.context);
    acceptor.async_accept(*socket, [this, &acceptor, &loop, socket](const error_code& ec) {
      if (!ec) take(loop, std::move(*socket));
      if (!acceptor.is_open()) return;
      if (ec) {  // probably out of descriptors: retry when some may be free
        const auto later = std::make_shared<asio::steady_timer>(loops_[0]->context, std::chrono::milliseconds(50));
        return later->async_wait([this, &acceptor, later](const error_code& e) {
          if (!e && acceptor.is_open()) accept(acceptor);
        });
      }
      accept(acceptor);
    });
  }
  template <class From>
  void take(Loop& loop, From socket) {
    constexpr bool kTcp = std::is_same_v<typename From::protocol_type, asio::ip::tcp>;
    error_code ignored;
    if constexpr (kTcp) (void)socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    if (++shared_.connections > shared_.limits.connections) {
      --shared_.connections;
      (void)socket.close(ignored);
      return;
    }
    asio::post(loop.context, [this, &loop, s = Socket(std::move(socket))]() mutable {
      auto session = kTcp && tls_ ? TlsSession::begin(tls_) : std::unique_ptr<TlsSession>();
      if (!session.ok()) return (void)--shared_.connections;
      std::make_shared<Connection>(loop, shared_, std::move(s), std::move(*session))->start();
    });
  }
  template <class Acceptor>
  void take_rest(Acceptor& acceptor) {
    error_code ec;
    (void)acceptor.non_blocking(true, ec);
    accept_rest(kBacklog, [&] {
      Loop& loop = *loops_[next_++ % loops_.size()];
      typename Acceptor::protocol_type::socket socket(loop.context);
      if (!acceptor.accept(socket, ec)) take(loop, std::move(socket));
      return !ec;
    });
    (void)acceptor.close(ec);
  }
  // Processes available events without sleeping, and polls for up to `linger_ns` while work may complete soon.
  static void turn(asio::io_context& context, LoopGuest& guest, int64_t linger_ns) {
    while (!context.stopped()) {
      guest.awake(true);
      int64_t last = now_ns();
      while (!context.stopped()) {
        if (context.poll() + guest.take() > 0)
          last = now_ns();
        else if (!guest.soon() || now_ns() - last > linger_ns)
          break;
      }
      guest.awake(false);
      context.run_one();
    }
  }
  static std::vector<std::shared_ptr<Connection>> all_of(const Loop& loop) {
    std::vector<std::shared_ptr<Connection>> all;
    for (Connection* c : loop.connections) all.push_back(c->shared_from_this());
    return all;
  }
  void sweep(Loop& loop) {
    loop.sweep.expires_after(std::chrono::milliseconds(100));
    loop.sweep.async_wait([this, &loop](const error_code& ec) {
      if (ec) return;
      for (const auto& c : all_of(loop)) c->sweep(now_ns(), shared_.draining);
      sweep(loop);
    });
  }

  Shared shared_;
  std::shared_ptr<TlsContext> tls_;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::optional<asio::ip::tcp::acceptor> tcp_;
  std::optional<asio::local::stream_protocol::acceptor> local_;
  size_t next_ = 0;
  int port_ = -1;
  std::string unix_socket_;
};
}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpOptions& options, Handler handler) {
  auto server = std::make_unique<Server>();
  PERI_TRY(server->open(options, std::move(handler)));
  return Result<std::unique_ptr<HttpServer>>(std::move(server));
}

}  // namespace peri::serve
