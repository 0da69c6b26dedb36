// Threads of completion queues advance calls step by step; one more thread ends calls that wait too long for their
// client.
#include "serve/grpc/server.hpp"

#ifndef PERI_GRPC
namespace peri::serve {
Result<std::unique_ptr<GrpcServer>> GrpcServer::start(const GrpcOptions&, Handler) {
  return unsupported("this build has no gRPC: libgrpc++-dev was missing where it was built")
      .advise("--grpc-port -1, or build where './dev setup' has run");
}
}  // namespace peri::serve
#else

#include <google/protobuf/stubs/common.h>
#if GOOGLE_PROTOBUF_VERSION < 4022000
#include <google/protobuf/stubs/logging.h>
#endif
#include <grpc/support/log.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <condition_variable>
#include <thread>

#include "base/heap.hpp"
#include "serve/grpc/call.hpp"

namespace peri::serve {
namespace {

gpr_timespec after(int64_t seconds) {
  return gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_seconds(seconds, GPR_TIMESPAN));
}

constexpr int kWaiting = 16;  // calls registered in advance, per queue
constexpr double kLookSeconds = 3,
                 kEndSeconds = 10;  // interval of checks of free memory; limit of waiting for the library at the end
constexpr size_t kMuch =
    size_t{16} << 20;  // more free memory is returned: a quarter of what slow clients may hold (reliability.py)

std::mutex handshakes_mutex;
std::function<void(const std::string& why)> handshake_failed;  // of the last server that asks; of handshakes_mutex

// The library tells of handshakes that fail in its log alone: "Handshake failed with fatal error ...: ...::peer did
// not return a certificate." Other failures are reported by this server itself.
void read_log(gpr_log_func_args* line) {
  constexpr std::string_view kFailed = "Handshake failed";
  const std::string_view text = line->message ? line->message : "";
  if (!text.starts_with(kFailed)) return;
  const std::lock_guard<std::mutex> lock(handshakes_mutex);
  if (!handshake_failed) return;
  const size_t reason = text.rfind("::");
  std::string why(reason == text.npos ? text : text.substr(reason + 2));
  if (why.ends_with('.')) why.pop_back();
  handshake_failed(why);
}

void hear_handshakes(std::function<void(const std::string& why)> told) {
  const std::lock_guard<std::mutex> lock(handshakes_mutex);
  handshake_failed = std::move(told);
  gpr_set_log_function(read_log);
}

class Server final : public GrpcServer {
 public:
  ~Server() override {
    const int64_t start = now_ns();
    while (shared_.unanswered > 0 && seconds_since(start) < 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (drainer_.joinable())
      drainer_.join();
    else if (server_)
      server_->Shutdown(after(0));
    {
      const std::lock_guard<std::mutex> lock(sweep_mutex_);
      stopping_ = true;
    }
    sweep_wake_.notify_all();
    // Ending calls may still use the queue; using it after its shutdown is a fault.
    for (const int64_t start = now_ns(); shared_.due > 0 && seconds_since(start) < kEndSeconds;)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (const auto& queue : queues_) queue->Shutdown();
    for (std::thread& t : threads_) t.join();
    if (shared_.options.refused_client) hear_handshakes(nullptr);
  }
  int port() const override { return port_; }
  void changed() override {
    {
      const std::lock_guard<std::mutex> lock(sweep_mutex_);
      changed_ = true;
    }
    sweep_wake_.notify_all();
  }
  void drain(int64_t seconds) override {
    if (drainer_.joinable()) return;
    shared_.draining = true;
    changed();
    drainer_ = std::thread([this, seconds] { server_->Shutdown(after(seconds)); });
  }
  Status open(const GrpcOptions& options, Handler handler);

 private:
  void work(grpc::ServerCompletionQueue& queue) {
    void* tag = nullptr;
    bool ok = false;
    while (queue.Next(&tag, &ok)) {
      auto* t = static_cast<GrpcCall::Tag*>(tag);
      const auto call = std::move(t->call);
      (call.get()->*t->done)(ok);
      --shared_.due;
    }
  }
  void sweep() {
    while (true) {
      bool look = false;
      {
        std::unique_lock<std::mutex> lock(sweep_mutex_);
        sweep_wake_.wait_for(lock, std::chrono::milliseconds(200), [&] { return stopping_ || changed_; });
        if (stopping_) return;
        look = std::exchange(changed_, false);
      }
      std::vector<std::shared_ptr<GrpcCall>> watches, streams;  // released without the mutex
      {
        const std::lock_guard<std::mutex> calls(shared_.mutex);
        for (GrpcCall* call : shared_.calls) {
          call->sweep(now_ns());
          if (auto watch = look ? call->watching() : nullptr) watches.push_back(std::move(watch));
          if (auto stream = shared_.draining ? call->streaming() : nullptr) streams.push_back(std::move(stream));
        }
      }
      for (const auto& watch : watches) watch->look();
      for (const auto& stream : streams) stream->drain();
      // Returns memory freed after a burst, such as calls that are opened and reset, to the system.
      if (seconds_since(looked_ns_) < kLookSeconds) continue;
      looked_ns_ = now_ns();
      free_.look();
    }
  }

  GrpcShared shared_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::thread> threads_;
  std::thread drainer_;
  std::mutex sweep_mutex_;
  std::condition_variable sweep_wake_;
  bool stopping_ = false, changed_ = false;
  int64_t looked_ns_ = now_ns();
  FreeMemory free_{kMuch};
  int port_ = -1;
};

std::shared_ptr<grpc::ServerCredentials> credentials_of(const GrpcOptions& options) {
  grpc::SslServerCredentialsOptions tls(options.client_ca.empty()
                                            ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                            : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  tls.pem_root_certs = options.client_ca;
  tls.pem_key_cert_pairs.push_back({options.key, options.certificate});
  return grpc::SslServerCredentials(tls);
}

Status Server::open(const GrpcOptions& options, Handler handler) {
  hear_handshakes(options.refused_client);
#if GOOGLE_PROTOBUF_VERSION < 4022000
  google::protobuf::SetLogHandler(nullptr);  // it writes a line for each message whose names are no text
#endif
  shared_.options = options;
  shared_.handler = std::move(handler);
  shared_.bodies = std::make_shared<ByteBudget>(options.limits.all_body_bytes);
  grpc::ServerBuilder builder;
  const HttpLimits& limits = options.limits;
  const std::string where =
      (options.address.find(':') == std::string::npos ? options.address : "[" + options.address + "]") + ":" +
      std::to_string(options.port);
  const auto open_to_all = grpc::InsecureServerCredentials();
  if (options.port >= 0)
    builder.AddListeningPort(where, options.key.empty() ? open_to_all : credentials_of(options), &port_);
  int socket = 1;
  if (!options.unix_socket.empty()) builder.AddListeningPort("unix:" + options.unix_socket, open_to_all, &socket);
  const auto set = [&](const char* name, int64_t v) {
    builder.AddChannelArgument(name, static_cast<int>(std::clamp<int64_t>(v, 0, INT32_MAX)));
  };
  set(GRPC_ARG_ALLOW_REUSEPORT, 0);
  set(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, static_cast<int64_t>(std::min<uint64_t>(limits.body_bytes, INT32_MAX)));
  builder.AddChannelArgument(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1);
  set(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  set(GRPC_ARG_MAX_METADATA_SIZE, limits.header_bytes);
  set(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.streams);
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, limits.header_ms);
  set(GRPC_ARG_MAX_CONNECTION_IDLE_MS, limits.idle_ms);
  set(GRPC_ARG_KEEPALIVE_TIME_MS, limits.idle_ms);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, options.ping_ms);
  set(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
  grpc::ResourceQuota quota("peri");
  quota.Resize(limits.all_body_bytes + (size_t{64} << 20));
  builder.SetResourceQuota(quota);
  builder.RegisterAsyncGenericService(&shared_.service);
  for (int k = 0; k < options.threads; ++k) queues_.push_back(builder.AddCompletionQueue());
  server_ = builder.BuildAndStart();
  if (!server_ || port_ == 0 || socket == 0) {
    const bool tcp = options.port >= 0 && port_ <= 0;
    return io_error("cannot listen for gRPC on %s", tcp ? where.c_str() : options.unix_socket.c_str())
        .advise(
            tcp ? "give --grpc-address one that this machine has, or --grpc-port another one, 0 for any that is free, "
                  "or -1 for none"
                : "give --grpc-socket a name that is free, in a folder that is there");
  }
  for (const auto& queue : queues_) {
    for (int k = 0; k < kWaiting; ++k) GrpcCall::wait(shared_, *queue);
    threads_.emplace_back([this, &queue] { work(*queue); });
  }
  threads_.emplace_back([this] { sweep(); });
  return Ok{};
}
}  // namespace

Result<std::unique_ptr<GrpcServer>> GrpcServer::start(const GrpcOptions& options, Handler handler) {
  auto server = std::make_unique<Server>();
  PERI_TRY(server->open(options, std::move(handler)));
  return Result<std::unique_ptr<GrpcServer>>(std::move(server));
}

}  // namespace peri::serve
#endif
