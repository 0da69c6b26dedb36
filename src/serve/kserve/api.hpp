// The protocol: every path of KServe v2 and of its extensions that this server supports, from request to reply. All
// requests enter here, whatever transport they use.
#pragma once

#include <atomic>

#include "serve/access/access.hpp"
#include "serve/kserve/infer_request.hpp"
#include "serve/observe/observer.hpp"
#include "serve/repository/repository.hpp"
#include "serve/text/text_api.hpp"

namespace peri::serve {

// Where a request came in: what it may ask for hangs on that.
enum class Way : uint8_t { kPublic, kManagement };

struct ApiOptions {
  Access* access = nullptr;       // outlives the Api; null: everybody may ask
  bool public_management = true;  // models may be listed, loaded and unloaded by the public way too
  bool public_settings = true;    // and so may settings of traces and of the log be changed
  ServerLog* log = nullptr;       // outlives the Api; null: none
  InferLimits limits;
  TextLimits text;
  size_t expanded_bytes = size_t{64} << 20;       // of a compressed body
  std::function<void(std::string*)> add_metrics;  // families of others; may be null
  Observer* observer = nullptr;                   // outlives the Api; null: nobody looks on
};

// All functions may be called from any thread.
class Api {
 public:
  Api(Repository& repository, ApiOptions options);
  // Answers now or later.
  void handle(const std::shared_ptr<Exchange>& exchange, Way way = Way::kPublic);
  // Whether a request may be answered at all; else it has got its refusal. For ways in that do not end in handle().
  bool admitted(Exchange& exchange, bool inference, uint32_t* tenant) const;
  // What a request without a key gets, where one is asked for: before its body is read. What is not refused keeps the
  // key that was found, so that handle() looks for none again.
  std::optional<HttpReply> refusal(HttpRequest& request) const;
  // From now on the server is live and not ready, and no request waits for others to join its batch.
  void drain();
  int64_t open() const { return open_; }  // requests not answered yet
  // Metrics in OpenMetrics' text form.
  std::string metrics() const;
  // HTTP's status for whether a model (empty: the server with all of them) is ready: 200, 400, or 404: there is none.
  int readiness(std::string_view model) const;
  // The same and more as one object of JSON, for `peri top` and the dashboard.
  std::string status() const;

 private:
  struct Work;
  void route(const std::shared_ptr<Work>& work);
  void route_models(const std::shared_ptr<Work>& work, std::span<const std::string_view> path);
  void route_repository(const std::shared_ptr<Work>& work, std::span<const std::string_view> path);
  void route_traces(const std::shared_ptr<Work>& work, std::string_view model);
  void route_logging(const std::shared_ptr<Work>& work);
  void route_shared(const std::shared_ptr<Work>& work, std::string_view what);
  bool may_set(const Work& work) const;
  void infer(const std::shared_ptr<Work>& work, std::string_view model, std::string_view version);
  void route_openai(const std::shared_ptr<Work>& work, std::span<const std::string_view> path);
  void texts(const std::shared_ptr<Work>& work, TextForm form, ServedPtr served, TextRequest request);
  Result<TextRequest> read_texts(Work& work, TextForm form);
  void answer(Work& work, Answer answer);
  void reply(Work& work, HttpReply reply);
  Status read_body(Work& work);

  Repository& repository_;
  const ApiOptions options_;
  std::atomic<bool> draining_{false};
  std::atomic<int64_t> open_{0};
  const int64_t began_ns_;
};

}  // namespace peri::serve
