// A gRPC call and its requests. One generic service receives every call; its messages are checked and parsed here, with
// limits that the library does not have. Only this file and server.cpp include gRPC's headers.
#pragma once

#ifdef PERI_GRPC
#include <grpc/support/time.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <set>
#include <unordered_map>

#include "base/clock.hpp"
#include "serve/grpc/infer_message.hpp"
#include "serve/grpc/methods.hpp"
#include "serve/grpc/server.hpp"

namespace peri::serve {

class GrpcCall;

// State shared by all calls of a server.
struct GrpcShared {
  GrpcOptions options;
  Handler handler;
  grpc::AsyncGenericService service;
  std::shared_ptr<ByteBudget> bodies;  // budget of received messages; set before the first call
  ReplyBudget replies;
  std::atomic<int64_t> unanswered{0};
  std::atomic<int64_t> due{0};      // tags that the library has yet to return
  std::atomic<int64_t> open{0};     // calls that were admitted
  std::atomic<bool> counts{false};  // whether calls are counted by connection
  std::atomic<bool> draining{false};
  std::mutex mutex;  // protects all members below
  std::set<GrpcCall*> calls;
  std::unordered_map<std::string, int64_t> by_peer;  // calls by connection
};

// One request of a call, and the path of its reply.
class GrpcExchange final : public Exchange {
 public:
  GrpcExchange(std::shared_ptr<GrpcCall> call, GrpcShared& shared) : call_(std::move(call)), shared_(shared) {
    ++shared_.unanswered;
  }
  ~GrpcExchange() override { shared_.bodies->give(claimed_); }
  const HttpRequest& request() const override { return request_; }
  void reply(HttpReply reply) override;
  void on_gone(std::function<void()> gone) override;
  // Reads the message of a call. Errors: as in its reply.
  Status read(const grpc::ByteBuffer& buffer, const Method& method, int64_t timeout_us);
  bool answered() const { return reply_.has_value(); }
  const std::string& about() const { return ask_.about; }

 private:
  friend class GrpcCall;
  std::shared_ptr<GrpcCall> call_;
  GrpcShared& shared_;
  HttpRequest request_;
  Ask ask_;
  std::unique_ptr<InferMessage> infer_;
  uint64_t claimed_ = 0;
  bool refused_ = false;            // refused before a request was made
  std::optional<HttpReply> reply_;  // under the call's mutex, as the members below
  std::function<void()> gone_;
};

// A call from its arrival to its end. Each operation in progress in the library holds a reference.
class GrpcCall : public std::enable_shared_from_this<GrpcCall> {
 public:
  struct Tag {
    void (GrpcCall::*done)(bool ok) = nullptr;
    std::shared_ptr<GrpcCall> call;
  };
  GrpcCall(GrpcShared& shared, grpc::ServerCompletionQueue& queue)
      : shared_(shared), queue_(queue), stream_(&context_) {
    const std::lock_guard<std::mutex> lock(shared_.mutex);
    shared_.calls.insert(this);
  }
  ~GrpcCall() {
    const std::lock_guard<std::mutex> lock(shared_.mutex);
    shared_.calls.erase(this);
    if (let_in_) --shared_.open;
    if (!peer_.empty() && --shared_.by_peer[peer_] == 0) shared_.by_peer.erase(peer_);
  }
  // Registers for the next call.
  static void wait(GrpcShared& shared, grpc::ServerCompletionQueue& queue) {
    const auto call = std::make_shared<GrpcCall>(shared, queue);
    call->context_.AsyncNotifyWhenDone(&call->ended_);
    shared.service.RequestCall(&call->context_, &call->stream_, &queue, &queue, call->held(call->arrived_));
  }
  // Ends a call that waits for its client longer than permitted.
  void sweep(int64_t now) {
    if (const int64_t limit = limit_ns_; limit > 0 && now > limit) context_.TryCancel();
  }
  void answered(GrpcExchange& exchange, HttpReply reply);
  void on_gone(GrpcExchange& exchange, std::function<void()> gone);
  // This call if it is a watch that has sent its first status; else null.
  std::shared_ptr<GrpcCall> watching() { return watches_ ? weak_from_this().lock() : nullptr; }
  // This call if its client may send several requests; else null.
  std::shared_ptr<GrpcCall> streaming() { return streams_ ? weak_from_this().lock() : nullptr; }
  // Called periodically while the server drains: ends a stream that received nothing since the last call and has all
  // its answers. After some time, a stream that continues to send is no longer read.
  void drain();
  // Sends the status to the client if it has changed.
  void look();

 private:
  void tell(int status);
  Tag* held(Tag& tag) {
    tag.call = shared_from_this();
    ++shared_.due;
    return &tag;
  }
  void allow(int64_t ms) { limit_ns_ = now_ns() + ms * 1000000; }
  void arrived(bool ok);
  grpc::Status admitted();
  int64_t count();
  void read(bool ok);
  void written(bool ok);
  void ended(bool ok);
  void finished(bool) { release(); }
  void release() { shared_.replies.give(replying_.exchange(0)); }
  void flush();
  void take(GrpcExchange& first);
  void read_more();
  void finish(const grpc::Status& status) {
    over_ = true;
    limit_ns_ = 0;
    stream_.Finish(status, held(finished_));
  }
  std::optional<int64_t> left_us() const;

  GrpcShared& shared_;
  grpc::ServerCompletionQueue& queue_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  Tag arrived_{&GrpcCall::arrived, nullptr}, read_{&GrpcCall::read, nullptr}, written_{&GrpcCall::written, nullptr},
      ended_{&GrpcCall::ended, nullptr}, finished_{&GrpcCall::finished, nullptr};
  const Method* method_ = nullptr;
  std::optional<uint32_t> key_;  // HttpRequest::key of all requests of this call
  std::atomic<bool> let_in_{false};
  std::string peer_;  // under the mutex of all calls; "": not counted
  grpc::ByteBuffer message_;
  std::atomic<int64_t> limit_ns_{0};
  std::atomic<uint64_t> replying_{0};               // bytes of the reply budget held by the message being written
  std::atomic<bool> watches_{false};                // `told_` and `about_` are set
  std::atomic<bool> streams_{false};                // `method_` is set, to a streaming one
  std::string about_;                               // the watched service
  std::mutex mutex_;                                // protects all members below
  std::deque<std::shared_ptr<GrpcExchange>> open_;  // in the order of their replies
  int told_ = 0;                                    // the last status sent
  bool reading_ = false, closed_ = false, writing_ = false, over_ = false, gone_ = false;
  bool idle_before_ = false;  // at the last drain()
  int drains_ = 0;
};

}  // namespace peri::serve
#endif
