// Transfers messages to and from the gRPC library, and the state machine of a call.
#include "serve/grpc/call.hpp"

#include <algorithm>

#ifdef PERI_GRPC
#include "base/clock.hpp"
#include "base/fault.hpp"
#include "serve/http/expanded.hpp"
#include "serve/kserve/told.hpp"

namespace peri::serve {
namespace {

constexpr size_t kSentence = 2000;  // limit of an error's text, which is sent in a header; clients limit those
constexpr size_t kCopied = 16384;   // replies up to this size are copied into the library's memory

// While draining, a stream is read for at most this many sweeps (200 ms apart): a client that continues to send would
// otherwise delay the end of the server until --exit-timeout-secs.
constexpr int kDrains = 5;
const grpc::Status kNoMore(grpc::StatusCode::UNAVAILABLE, "the server takes no more calls");

grpc::StatusCode code_of(int status) {
  switch (status) {
    case 400:
    case 415: return grpc::StatusCode::INVALID_ARGUMENT;
    case 401: return grpc::StatusCode::UNAUTHENTICATED;
    case 403: return grpc::StatusCode::PERMISSION_DENIED;
    case 404: return grpc::StatusCode::NOT_FOUND;
    case 405:
    case 501: return grpc::StatusCode::UNIMPLEMENTED;
    case 413:
    case 429: return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case 499: return grpc::StatusCode::CANCELLED;
    case 503: return grpc::StatusCode::UNAVAILABLE;
    case 504: return grpc::StatusCode::DEADLINE_EXCEEDED;
    default: return grpc::StatusCode::INTERNAL;
  }
}

int status_of(const Error& e) {
  if (e.kind == ErrorKind::kMemory) return 413;
  if (e.kind == ErrorKind::kRefused) return 429;
  if (e.kind == ErrorKind::kUsage) return 404;
  if (e.kind == ErrorKind::kUnsupported) return 501;
  return e.kind == ErrorKind::kInvalid ? 400 : 500;
}

// The library is configured not to decompress, since it does not limit the expanded size. The first byte of a gzip
// stream is not a valid protobuf tag; that of a zlib stream is the tag of a field that no message here has.
std::optional<Compression> compression_of(Bytes b) {
  if (b.size() < 2) return std::nullopt;
  const auto first = static_cast<unsigned>(b[0]), second = static_cast<unsigned>(b[1]);
  if (first == 0x1f && second == 0x8b) return Compression::kGzip;
  if (first == 0x78 && (first << 8 | second) % 31 == 0) return Compression::kZlib;
  return std::nullopt;
}

// The bytes of a message in one piece, with their owner.
Result<Expanded> body_of(const grpc::ByteBuffer& buffer, size_t most, const std::shared_ptr<ByteBudget>& budget) {
  Expanded out;
  if (buffer.Length() > 0) {
    auto slice = std::make_shared<grpc::Slice>();
    if (!buffer.TrySingleSlice(slice.get()).ok() && !buffer.DumpToSingleSlice(slice.get()).ok())
      return internal_error("a message could not be read");
    out = {{reinterpret_cast<const std::byte*>(slice->begin()), slice->size()}, slice};
  }
  const auto form = compression_of(out.bytes);
  if (!form) return out;
  return expand(out.bytes, *form, most, budget);
}

grpc::ByteBuffer buffer_of(const std::string& head, HttpReply& reply) {
  std::vector<grpc::Slice> slices;
  if (!head.empty()) slices.emplace_back(head);
  const auto add = [&](Bytes bytes, std::shared_ptr<const void> owner) {
    auto kept = std::make_unique<std::shared_ptr<const void>>(std::move(owner));
    const auto end = [](void* p) {
      std::unique_ptr<std::shared_ptr<const void>>(static_cast<std::shared_ptr<const void>*>(p));
    };
    slices.emplace_back(const_cast<std::byte*>(bytes.data()), bytes.size(), end, kept.release());
  };
  if (reply.text.size() <= kCopied) {
    slices.emplace_back(reply.text);
  } else {
    const auto text = std::make_shared<std::string>(std::move(reply.text));
    add(std::as_bytes(std::span(*text)), text);
  }
  for (HttpReply::Piece& p : reply.pieces) add(p.bytes, std::move(p.owner));
  return {slices.data(), slices.size()};
}

}  // namespace

Status GrpcExchange::read(const grpc::ByteBuffer& buffer, const Method& method, int64_t timeout_us) {
  const HttpLimits& limits = shared_.options.limits;
  if (!shared_.bodies->take(buffer.Length()))
    return refused("%s", std::string(shared_.bodies->refusal(buffer.Length())).c_str());
  claimed_ = buffer.Length();
  const auto body = body_of(buffer, limits.body_bytes, shared_.bodies);
  if (!body.ok()) return body.error();
  if (method.ask) {
    PERI_ASSIGN(ask_, method.ask(body->bytes, shared_.options.message));
  } else {
    PERI_ASSIGN(infer_, InferMessage::read(body->bytes, body->owner, method.stream, shared_.options.message));
    infer_->set_timeout_us(timeout_us);
    ask_.verb = "POST";
    PERI_ASSIGN(ask_.target, infer_->target());
    request_.form = infer_.get();
  }
  request_.method = ask_.verb;
  request_.target = ask_.target;
  request_.body = std::as_bytes(std::span(ask_.body));
  return Ok{};
}

void GrpcExchange::reply(HttpReply reply) {
  const auto call = std::move(call_);
  if (!call) return;
  call->answered(*this, std::move(reply));
  --shared_.unanswered;
}
void GrpcExchange::on_gone(std::function<void()> gone) {
  if (const auto call = call_) call->on_gone(*this, std::move(gone));
}

// The metadata value under a name.
static std::string_view metadata_of(const grpc::ServerContext& context, const char* name) {
  const auto it = context.client_metadata().find(name);
  return it == context.client_metadata().end() ? std::string_view()
                                               : std::string_view(it->second.data(), it->second.size());
}

// Sets the request's members that come from metadata; they are views of the call, which outlives the request.
template <class Request>
static void read_metadata(const grpc::ServerContext& context, Request* request) {
  request->user_agent = metadata_of(context, "user-agent");
  if constexpr (requires { request->authorization; }) request->authorization = metadata_of(context, "authorization");
  if constexpr (requires { request->traceparent; }) request->traceparent = metadata_of(context, "traceparent");
}

// The library enforces the limit of calls per connection only after the client has acknowledged it, and stops counting
// a call that was reset while its request still runs. Peers are counted only once the calls of all connections together
// have exceeded the limit of one connection; calls that have just ended may be counted too, hence the factor of two.
// Connections of a Unix socket are indistinguishable.
grpc::Status GrpcCall::admitted() {
  const GrpcOptions& options = shared_.options;
  if (const auto& refuses = options.refuses; refuses && !method_->open)
    if (const std::string why = refuses(metadata_of(context_, "authorization"), &key_.emplace()); !why.empty())
      return {grpc::StatusCode::UNAUTHENTICATED, why};
  let_in_ = true;
  if (++shared_.open <= options.streams && !shared_.counts) return grpc::Status::OK;
  const std::lock_guard<std::mutex> lock(shared_.mutex);
  if (!shared_.counts.exchange(true))
    for (GrpcCall* call : shared_.calls)
      if (call->let_in_) call->count();
  if (count() <= 2 * int64_t{options.streams}) return grpc::Status::OK;
  return {grpc::StatusCode::RESOURCE_EXHAUSTED,
          "more calls at once on a connection than this server takes (--max-grpc-streams)"};
}

// The number of calls on this connection, including this one. REQUIRES: the mutex of all calls is held.
int64_t GrpcCall::count() {
  if (peer_.empty()) {
    std::string peer = context_.peer();
    if (!peer.starts_with("ipv")) return 0;
    peer_ = std::move(peer);
    ++shared_.by_peer[peer_];
  }
  return shared_.by_peer[peer_];
}

void GrpcCall::arrived(bool ok) {
  if (!ok) return;  // the server ends
  held(ended_);
  wait(shared_, queue_);
  method_ = find_method(context_.method());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!method_) return finish({grpc::StatusCode::UNIMPLEMENTED, "no such call: this server speaks KServe v2"});
  if (const grpc::Status in = admitted(); !in.ok()) return finish(in);
  streams_ = method_->stream;
  read_more();
}

// REQUIRES: the mutex is held, as for flush() and take().
void GrpcCall::read_more() {
  if (reading_ || closed_ || over_ || drains_ >= kDrains || open_.size() >= static_cast<size_t>(shared_.options.ahead))
    return;
  reading_ = true;
  if (open_.empty()) allow(method_->stream ? shared_.options.limits.idle_ms : shared_.options.limits.body_ms);
  stream_.Read(&message_, held(read_));
}

// Microseconds until the client's deadline; none: it has passed. 0: there is no deadline.
std::optional<int64_t> GrpcCall::left_us() const {
  const gpr_timespec deadline = context_.raw_deadline();
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) return 0;
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  if (left.tv_sec < 0 || (left.tv_sec == 0 && left.tv_nsec == 0)) return std::nullopt;
  return std::min(left.tv_sec, int64_t{1} << 30) * 1000000 + std::max(left.tv_nsec / 1000, 1);
}

void GrpcCall::read(bool ok) {
  std::shared_ptr<GrpcExchange> exchange;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    limit_ns_ = 0;
    idle_before_ = false;
    if (ok && over_) {  // it arrived after the call had ended, and the client sees the status
      reading_ = false;
      return message_.Clear();
    }
    if (ok) {
      exchange = std::make_shared<GrpcExchange>(shared_from_this(), shared_);
      open_.push_back(exchange);
    } else {
      reading_ = false;
      closed_ = true;
      if (!method_->stream && !over_ && open_.empty())
        return finish({grpc::StatusCode::INVALID_ARGUMENT, "the call brought no message"});
      return flush();
    }
  }
  const auto left = left_us();
  read_metadata(context_, &exchange->request_);
  exchange->request_.key = key_;
  const Status begun = contained([&] { return exchange->read(message_, *method_, left.value_or(0)); });
  message_.Clear();
  exchange->refused_ = !begun.ok();
  if (!begun.ok())
    exchange->reply(error_reply(status_of(begun.error()), told(begun.error())));
  else if (!left)
    exchange->reply(error_reply(504, "the deadline of the call has passed"));
  else
    shared_.handler(exchange);
  const std::lock_guard<std::mutex> lock(mutex_);
  reading_ = false;
  if (method_->stream) read_more();
}

void GrpcCall::answered(GrpcExchange& exchange, HttpReply reply) {
  const std::lock_guard<std::mutex> lock(mutex_);
  exchange.gone_ = nullptr;
  exchange.reply_ = std::move(reply);
  flush();
}

void GrpcCall::on_gone(GrpcExchange& exchange, std::function<void()> gone) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (exchange.reply_) return;
    if (!gone_) {
      exchange.gone_ = std::move(gone);
      return;
    }
  }
  gone();
}

void GrpcCall::flush() {
  if (writing_ || over_) return;
  if (!open_.empty() && open_.front()->answered()) return take(*open_.front());
  if (open_.empty() && closed_) finish(grpc::Status::OK);
}

void GrpcCall::take(GrpcExchange& first) {
  HttpReply& reply = *first.reply_;
  if (method_->watch && !first.refused_ && (reply.status == 200 || reply.status == 400 || reply.status == 404)) {
    about_ = first.about();
    watches_ = true;
    return tell(reply.status);
  }
  allow(shared_.options.limits.write_ms);
  // "Not ready" is a valid answer, not an error.
  const bool answer = method_->says_by_status && reply.status == 400 && !first.refused_;
  const bool failed = reply.status >= 400 && !answer;
  if (failed && !method_->stream) {
    if (reply.retry_after_s > 0)
      context_.AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(reply.retry_after_s * 1000));
    finish({code_of(reply.status), error_sentence(reply).substr(0, kSentence)});
    return open_.clear();
  }
  std::string head;
  if (failed) {
    reply.text = stream_error(error_sentence(reply).substr(0, kSentence), first.infer_ ? first.infer_->id() : "");
  } else if (method_->answer) {
    auto message = contained([&] { return method_->answer(reply); });
    reply.pieces.clear();
    if (!message.ok()) {
      finish({grpc::StatusCode::INTERNAL, message.error().message});
      return open_.clear();
    }
    reply.text = std::move(*message);
  } else if (method_->stream) {
    put_stream_head(reply.body_bytes(), &head);
  }
  const auto holds = shared_.replies.take(reply.body_bytes(), shared_.options.limits.all_body_bytes);
  if (!holds) {
    finish({grpc::StatusCode::RESOURCE_EXHAUSTED, std::string(kUnread)});
    return open_.clear();
  }
  replying_ = *holds;
  const grpc::ByteBuffer bytes = buffer_of(head, reply);
  if (method_->stream) {
    writing_ = true;
    return stream_.Write(bytes, held(written_));
  }
  over_ = true;
  stream_.WriteAndFinish(bytes, grpc::WriteOptions(), grpc::Status::OK, held(finished_));
  open_.clear();
}

void GrpcCall::written(bool ok) {
  std::shared_ptr<GrpcExchange> first;  // destroyed without the mutex
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    limit_ns_ = 0;
    release();
    writing_ = false;
    if (!open_.empty()) {
      first = std::move(open_.front());
      open_.pop_front();
    }
    if (!ok) closed_ = true;
    flush();
    if (over_) return;
    if (!method_->watch) {
      read_more();
      if (open_.empty() && reading_) allow(shared_.options.limits.idle_ms);
      return;
    }
  }
  look();  // the status may have changed during the write
}

// SERVING, NOT_SERVING, SERVICE_UNKNOWN. REQUIRES: the mutex is held, and no write is in progress.
void GrpcCall::tell(int status) {
  told_ = status;
  allow(shared_.options.limits.write_ms);
  HttpReply message;
  message.text = std::string("\x08") + (status == 200 ? '\1' : status == 400 ? '\2' : '\3');
  writing_ = true;
  stream_.Write(buffer_of("", message), held(written_));
}

void GrpcCall::look() {
  const int now = shared_.options.ready ? shared_.options.ready(about_) : 0;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (over_ || writing_ || gone_) return;
  if (shared_.draining) return finish(kNoMore);
  if (now != 0 && now != told_) tell(now);
}

void GrpcCall::drain() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool idle = open_.empty() && !writing_ && !over_ && !gone_;
  if (idle && idle_before_) return finish(kNoMore);
  idle_before_ = idle;
  ++drains_;
}

void GrpcCall::ended(bool) {
  std::vector<std::function<void()>> gone;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    limit_ns_ = 0;
    if (!context_.IsCancelled()) return;
    gone_ = true;
    for (const auto& exchange : open_)
      if (exchange->gone_) gone.push_back(std::move(exchange->gone_));
  }
  for (const auto& each : gone) each();
}

}  // namespace peri::serve
#endif
