// The protocol: every path of KServe v2 and of its extensions that this server supports, from request to reply. All
// requests enter here, whatever transport they use.
#pragma once

#include <atomic>

#include "serve/access/access.hpp"
#include "serve/kserve/infer_request.hpp"
#include "serve/observe/observer.hpp"
#include "serve/observe/process.hpp"
#include "serve/repository/repository.hpp"
#include "serve/text/text_api.hpp"

namespace peri::serve {

// The listener that a request arrived at, which determines what it may do.
enum class Way : uint8_t { kPublic, kManagement };

struct ApiOptions {
  Access* access = nullptr;       // outlives the Api; null: no access control
  bool public_management = true;  // kPublic may list, load and unload models too
  bool public_settings = true;    // kPublic may change settings of traces and of the log too
  ServerLog* log = nullptr;       // outlives the Api; null: none
  InferLimits limits;
  TextLimits text;
  size_t expanded_bytes = size_t{64} << 20;            // limit of a decompressed body
  std::function<void(std::string*)> add_metrics;       // appends further metric families; may be null
  std::function<std::vector<NamedProcess>()> workers;  // those that run now; null: models run in this process
  std::string id = "peri";                             // the server's name in its metadata
  Observer* observer = nullptr;                        // outlives the Api; null: requests are not recorded
};

// Thread-safe.
class Api {
 public:
  Api(Repository& repository, ApiOptions options);
  // Replies now or later, from any thread.
  void handle(const std::shared_ptr<Exchange>& exchange, Way way = Way::kPublic);
  // Whether a request is permitted; otherwise its refusal has been sent. For transports that do not call handle().
  bool admitted(Exchange& exchange, bool inference, Pass* pass) const;
  // The refusal of a request without a valid key, if keys are required: called before its body is read. Otherwise
  // stores the key, so that handle() does not look it up again.
  std::optional<HttpReply> refusal(HttpRequest& request) const;
  // From now on the server is live and not ready, and no request waits for others to join its batch.
  void drain();
  int64_t open() const { return open_; }           // requests not answered yet
  uint64_t answered() const { return answered_; }  // requests that got what models gave, ensembles as one
  // Answers every request that waits for a model with 503: the server ends without its answer.
  void give_up();
  // Metrics in OpenMetrics text format.
  std::string metrics() const;
  // HTTP status of the readiness of a model (empty: of the server with all models): 200, 400, or 404: no such model.
  int readiness(std::string_view model) const;
  // Metrics and further state as one JSON object, for `peri top` and the dashboard.
  std::string status() const;

 private:
  struct Work;
  class Waiting;
  void answer_later(const std::shared_ptr<Work>& work);
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
  HttpReply reply_of(Work& work, Answer answer);
  void reply(Work& work, HttpReply reply);
  Status read_body(Work& work);

  Repository& repository_;
  const ApiOptions options_;
  const std::shared_ptr<Waiting> waiting_;
  std::atomic<bool> draining_{false};
  std::atomic<int64_t> open_{0};
  std::atomic<uint64_t> answered_{0};
  const int64_t began_ns_;
};

}  // namespace peri::serve
