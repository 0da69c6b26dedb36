// HTTP for the rest of the server: a request's fields and body as views, a reply of text and tensor bytes. Includes no
// header of a library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "serve/http/budget.hpp"

namespace peri::serve {

class TlsContext;

// Memory of a body: 64-byte aligned where `lead` bytes have passed, so that the binary part behind a JSON header of
// that length is aligned. Not cleared; kept by those who hold views of it.
class BodyMemory {
 public:
  // Room for `bytes`, where there is less by growing to it. What was written stays. False: no memory.
  bool reserve(size_t bytes, size_t lead);
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t capacity() const { return capacity_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::byte* data_ = nullptr;
  size_t capacity_ = 0, lead_ = 0, whole_ = 0;
};

class InferForm;

// Valid until the reply is given; `body` as long as body_owner.
struct HttpRequest {
  std::string_view method, target;  // "POST", "/v2/models/x/infer?a=b"
  bool head_alone = false;          // HEAD came, which is asked as GET is; the reply's body is not sent
  std::string_view content_type, content_encoding, accept_encoding, user_agent;
  std::string_view authorization, traceparent;
  int64_t first_byte_ns = 0;           // when the request began to come; 0: not known
  std::optional<uint64_t> json_bytes;  // Inference-Header-Content-Length
  bool bad_json_bytes = false;         // that header is no number
  std::span<const std::byte> body;
  std::shared_ptr<const void> body_owner;
  std::optional<uint32_t> key;  // of the server's, where it was looked for before the body came (Access::find)
  InferForm* form = nullptr;    // of an inference that another protocol brought: read and answered by it, not as JSON
};

struct HttpReply {
  int status = 200;
  std::string_view content_type = "application/json";  // of static storage
  std::string_view content_encoding = "";              // likewise
  std::string text;                                    // the body's beginning
  struct Piece {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
  };
  std::vector<Piece> pieces;           // the rest of the body
  std::optional<uint64_t> json_bytes;  // Inference-Header-Content-Length
  int64_t retry_after_s = 0;
  std::string_view authenticate = "";      // WWW-Authenticate, of static storage
  std::string_view allow = "";             // Allow, of static storage
  bool close = false;                      // the connection ends with it
  std::shared_ptr<const void> until_sent;  // let go when the reply is written, or is lost

  uint64_t body_bytes() const;
};
// {"error": message} with a status.
HttpReply error_reply(int status, std::string_view message);
// 405. `methods`: those that the path takes, of static storage.
HttpReply wrong_method(std::string_view methods, std::string_view message);
constexpr std::string_view kRead = "GET, HEAD", kPost = "POST", kReadOrPost = "GET, HEAD, POST";
// What a reply says of its connection.
enum class After : uint8_t {
  kOpen,      // it stays open, as HTTP/1.1 has it unless something is said
  kSaidOpen,  // and says so, as clients of HTTP/1.0 want to hear
  kClosed,
};
// Status line and header fields of a reply.
void write_head(const HttpReply& reply, After after, std::string* out);

// One request and its way back. All functions may be called from any thread.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const HttpRequest& request() const = 0;
  // Gives the reply; the first counts. The request's views end with it.
  virtual void reply(HttpReply reply) = 0;
  // Called once if the client goes away before the reply, on the connection's thread; at once if it has gone.
  // REQUIRES: called on the thread that was handed the exchange, before it returns.
  virtual void on_gone(std::function<void()> gone) = 0;
  // What the request's memory is counted in beside its body as it came; null: nothing. REQUIRES: as of on_gone().
  virtual std::shared_ptr<ByteBudget> budget() const { return nullptr; }
};
using Handler = std::function<void(const std::shared_ptr<Exchange>&)>;

struct HttpLimits {
  uint32_t header_bytes = 16384;
  int header_fields = 100;
  uint64_t body_bytes = uint64_t{64} << 20;
  uint64_t all_body_bytes = uint64_t{1} << 30;  // of all requests under way together
  uint32_t chunks = 65536;                      // of a chunked body
  int connections = 10000;
  int64_t header_ms = 10000;  // from the first byte of a request to the last of its header
  int64_t body_ms = 10000;    // for a body, and a second more for each body_bytes_per_s of it
  int64_t body_bytes_per_s = 100000;
  int64_t idle_ms = 120000;  // between requests
  int64_t write_ms = 30000;  // for a reply, and more by its size as for a body
};

// What a loop's thread does beside its connections: work that others finish and that it takes back itself, in place of
// being woken for each piece. Each thread has one of its own.
class LoopGuest {
 public:
  virtual ~LoopGuest() = default;
  // The thread is awake and will call take(), or is about to sleep: others may wake it.
  virtual void awake(bool on) = 0;
  virtual size_t take() = 0;      // how many pieces were taken
  virtual bool soon() const = 0;  // whether something is under way that may be there in a moment
};

struct HttpOptions {
  std::string address = "127.0.0.1";
  int port = 0;                     // 0: any free one; negative: no TCP
  std::string unix_socket;          // a path; empty: none
  std::shared_ptr<TlsContext> tls;  // of TCP; null: none
  uint32_t unix_mode = 0;           // rights of that file; 0: as the process makes files
  int threads = 1;
  HttpLimits limits;
  // The reply to a request that nothing more is read of, asked before the memory of a body is taken; else the request
  // has its `key` from then on. May be null, or give none.
  std::function<std::optional<HttpReply>(HttpRequest&)> refusal = nullptr;
  std::function<std::unique_ptr<LoopGuest>()> guest;  // asked for each thread; may be null, or give null
  int64_t linger_ns = 20000;                          // that a thread with a guest looks for more before it sleeps
};

// A server that has begun. Destroyed, it closes every connection. REQUIRES: no exchange is replied to afterwards.
class HttpServer {
 public:
  // Listens and starts its threads, which call `handler`. It must not block and throws nothing.
  static Result<std::unique_ptr<HttpServer>> start(const HttpOptions& options, Handler handler);
  virtual ~HttpServer() = default;
  virtual int port() const = 0;  // of TCP
  // Takes no more connections; those that are open end with their next reply, idle ones now.
  virtual void drain() = 0;
  virtual int64_t connections() const = 0;
};

}  // namespace peri::serve
