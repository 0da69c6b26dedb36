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

// Memory of a body, with offset `lead` aligned to 64 bytes, so that the binary part after a JSON header of that length
// is aligned. Not cleared; kept alive by views of it.
class BodyMemory {
 public:
  // Grows to at least `bytes`; contents are kept. False: out of memory.
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

// Valid until the reply; `body` as long as body_owner.
struct HttpRequest {
  std::string_view method, target;  // "POST", "/v2/models/x/infer?a=b"
  bool head_alone = false;          // the method is HEAD, processed like GET; the reply's body is not sent
  std::string_view content_type, content_encoding, accept_encoding, user_agent, accept;
  std::string_view authorization, traceparent;
  int64_t first_byte_ns = 0;           // arrival of the first byte; 0: unknown
  std::optional<uint64_t> json_bytes;  // Inference-Header-Content-Length
  bool bad_json_bytes = false;         // that header is not a number
  std::span<const std::byte> body;
  std::shared_ptr<const void> body_owner;
  std::optional<uint32_t> key;  // of the server's, where it was looked for before the body came (Access::find)
  InferForm* form = nullptr;    // of an inference through another protocol, which reads and writes it instead of JSON
};

struct HttpReply {
  int status = 200;
  std::string_view content_type = "application/json";  // static storage
  std::string_view content_encoding = "";              // static storage
  std::string text;                                    // the beginning of the body
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
  kOpen,      // open, the default of HTTP/1.1
  kSaidOpen,  // open, stated explicitly for clients of HTTP/1.0
  kClosed,
};
// Status line and header fields of a reply.
void write_head(const HttpReply& reply, After after, std::string* out);

// A request and the means to reply to it. Thread-safe.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const HttpRequest& request() const = 0;
  // Sends the reply; only the first call counts. Invalidates the request's views.
  virtual void reply(HttpReply reply) = 0;
  // Called once if the client disconnects before the reply, on the connection's thread; at once if it already has.
  // REQUIRES: called on the thread that received the exchange, before it returns.
  virtual void on_gone(std::function<void()> gone) = 0;
  // The budget of the request's memory other than its body; null: none. REQUIRES: as for on_gone().
  virtual std::shared_ptr<ByteBudget> budget() const { return nullptr; }
};
using Handler = std::function<void(const std::shared_ptr<Exchange>&)>;

struct HttpLimits {
  uint32_t header_bytes = 16384;
  int header_fields = 100;
  uint64_t body_bytes = uint64_t{64} << 20;
  uint64_t all_body_bytes = uint64_t{1} << 30;  // of all current requests together
  uint32_t chunks = 65536;                      // of a chunked body
  int connections = 10000;
  int64_t header_ms = 10000;  // from the first byte of a request to the last of its header
  int64_t body_ms = 10000;    // for a body, plus a second for each body_bytes_per_s of it
  int64_t body_bytes_per_s = 100000;
  int64_t idle_ms = 120000;  // between requests
  int64_t write_ms = 30000;  // for a reply, plus time by its size as for a body
};

// Further work of a loop's thread: it polls for work completed by other threads, instead of being woken for each piece.
// Each thread has its own.
class LoopGuest {
 public:
  virtual ~LoopGuest() = default;
  // The thread is awake and will call take(), or is about to sleep and must be woken.
  virtual void awake(bool on) = 0;
  virtual size_t take() = 0;      // returns the number of pieces taken
  virtual bool soon() const = 0;  // whether work may complete very soon
};

struct HttpOptions {
  std::string address = "127.0.0.1";
  int port = 0;                     // 0: any free one; negative: no TCP
  std::string unix_socket;          // a path; empty: none
  std::shared_ptr<TlsContext> tls;  // of TCP; null: none
  // Called for each client whose certificate was not accepted, on any thread, with its address; may be null.
  std::function<void(const std::string& client, const std::string& why)> refused_client = nullptr;
  uint32_t unix_mode = 0;  // mode of that file; 0: by the process's umask
  int threads = 1;
  HttpLimits limits;
  // The reply to a request that is rejected before the memory of its body is allocated; otherwise sets the request's
  // `key`. May be null, or return none.
  std::function<std::optional<HttpReply>(HttpRequest&)> refusal = nullptr;
  std::function<std::unique_ptr<LoopGuest>()> guest;  // called for each thread; may be null, or return null
  int64_t linger_ns = 20000;                          // how long a thread with a guest polls before it sleeps
};

// A running server. The destructor closes every connection. REQUIRES: no exchange is replied to afterwards.
class HttpServer {
 public:
  // Listens and starts its threads, which call `handler`. It must not block or throw.
  static Result<std::unique_ptr<HttpServer>> start(const HttpOptions& options, Handler handler);
  virtual ~HttpServer() = default;
  virtual int port() const = 0;  // of TCP
  // Accepts no more connections; open ones are closed after their next reply, idle ones now.
  virtual void drain() = 0;
  virtual int64_t connections() const = 0;
};

}  // namespace peri::serve
