// camelCase becomes words with hyphens; other spellings are in short tables, and in Flag::also.
#include "cli/console/spellings.hpp"

#include <algorithm>
#include <cctype>
#include <span>

#include "cli/console/elsewhere.hpp"

namespace peri::cli {

namespace {
struct Shorthand {
  std::string_view word, flag, value;
};
constexpr Shorthand kShorthands[] = {{"--fp16", "--dtype", "f16"},
                                     {"--bf16", "--dtype", "bf16"},
                                     {"--fp32", "--dtype", "f32"},
                                     {"--half", "--dtype", "f16"}};
// Flags whose value is the command's argument.
constexpr std::string_view kModels[] = {"--onnx", "--load-engine"};

// Flags of Triton's server with the alternative here.
struct Elsewhere {
  std::string_view word, advice;
};
constexpr std::string_view kLeaveOut = "leave it out: it has no effect here";
constexpr std::string_view kNoFields = "leave it out: models get tensors, and no header fields of requests";
constexpr std::string_view kOnePort =
    "leave it out: a port is one server's; give each its own, and a proxy that spreads requests before them";
constexpr std::string_view kNoClouds =
    "leave it out: the server speaks KServe v2; a proxy before it may translate the paths of a cloud's endpoints";
constexpr std::string_view kMutual = "give --tls-client-ca, with --tls-certificate and --tls-key";
constexpr std::string_view kNoPings =
    "leave it out: the server sends no pings; --min-ping-secs is how often clients may send theirs";
constexpr std::string_view kNoAge = "leave it out: connections have no age; --exit-timeout-secs bounds their end";
constexpr Elsewhere kOfTriton[] = {
    {"--allow-http", "give --http-port -1 for none"},
    {"--allow-grpc", "give --grpc-port -1 for none"},
    {"--allow-metrics", "give --metrics-port -1 for none"},
    {"--allow-gpu-metrics", kLeaveOut},
    {"--allow-cpu-metrics", kLeaveOut},
    {"--allow-sagemaker", kNoClouds},
    {"--allow-vertex-ai", kNoClouds},
    {"--backend-config", "leave it out: models are built by this program, with the build flags in --help"},
    {"--backend-directory", "leave it out: there are no backends to load"},
    {"--buffer-manager-thread-count", kLeaveOut},
    {"--cache-config", "give --cache-mib"},
    {"--cache-directory", "leave it out: answers are kept in memory, engines in the cache's folder"},
    {"--cuda-memory-pool-byte-size", kLeaveOut},
    {"--disable-auto-complete-config", "leave it out: what a configuration does not say is the model's"},
    {"--enable-peer-access", kLeaveOut},
    {"--exit-on-error", "leave it out: a model that fails leaves the server live and not ready"},
    {"--grpc-header-forward-pattern", kNoFields},
    {"--grpc-http2-max-ping-strikes",
     "leave it out: a connection whose third ping is too early is closed; see --min-ping-secs"},
    {"--grpc-http2-max-pings-without-data", kNoPings},
    {"--grpc-http2-min-recv-ping-interval-without-data", "give --min-ping-secs"},
    {"--grpc-infer-allocation-pool-size", kLeaveOut},
    {"--grpc-infer-response-compression-level",
     "leave it out: replies are sent as they are; --max-body-bytes bounds what clients compress"},
    {"--grpc-keepalive-permit-without-calls", kNoPings},
    {"--grpc-keepalive-time", kNoPings},
    {"--grpc-keepalive-timeout", kNoPings},
    {"--grpc-max-connection-age", kNoAge},
    {"--grpc-max-connection-age-grace", kNoAge},
    {"--grpc-restricted-protocol", "give --api-keys, and --management-socket"},
    {"--grpc-root-cert", kMutual},
    {"--grpc-server-cert", "give --tls-certificate"},
    {"--grpc-server-key", "give --tls-key"},
    {"--grpc-use-ssl", "give --tls-certificate and --tls-key"},
    {"--grpc-use-ssl-mutual", kMutual},
    {"--host-policy", "leave it out: --threads and numactl bound the server's threads"},
    {"--http-header-forward-pattern", kNoFields},
    {"--http-restricted-api", "give --api-keys, and --management-socket"},
    {"--log-error", "it is on; --quiet turns the log off, POST /v2/logging a level of it"},
    {"--log-file", "give --log FILE"},
    {"--log-info", "it is on; --quiet turns the log off, POST /v2/logging a level of it"},
    {"--log-warning", "it is on; --quiet turns the log off, POST /v2/logging a level of it"},
    {"--metrics-config", "leave it out: /metrics has counters, summaries and histograms as they are"},
    {"--metrics-interval-ms", kLeaveOut},
    {"--min-supported-compute-capability",
     "leave it out: an engine runs on the devices that it was built for, and peri doctor lists those that are there"},
    {"--model-load-gpu-limit", "leave it out: a model that a device has no memory for is refused when it is loaded"},
    {"--model-load-thread-count", kLeaveOut},
    {"--model-namespacing", "leave it out: there is one repository, in which each name is one model"},
    {"--pinned-memory-pool-byte-size", kLeaveOut},
    {"--rate-limit",
     "leave it out: what a configuration's rate_limiter says holds; copies are set by --rate-limit-resource"},
    {"--response-cache-byte-size", "give --cache-mib"},
    {"--reuse-grpc-port", kOnePort},
    {"--reuse-http-port", kOnePort},
    {"--sagemaker-port", kNoClouds},
    {"--sagemaker-safe-port-range", kNoClouds},
    {"--sagemaker-thread-count", kNoClouds},
    {"--strict-model-config", "leave it out: what a configuration does not say is the model's"},
    {"--strict-readiness", "leave it out: the server is ready when every model is"},
    {"--trace-config", "give --otlp-endpoint, --trace-rate and --trace-count"},
    {"--trace-file", "give --otlp-endpoint"},
    {"--trace-level", "give --otlp-endpoint"},
    {"--vertex-ai-address", kNoClouds},
    {"--vertex-ai-default-model", kNoClouds},
    {"--vertex-ai-port", kNoClouds},
    {"--vertex-ai-thread-count", kNoClouds},
};
// Flags of perf_analyzer likewise.
constexpr std::string_view kInFlight =
    "leave it out: as many requests as --concurrency-range says are in flight, without a thread for each";
constexpr std::string_view kNoShared = "leave it out: tensors travel in the requests";
constexpr Elsewhere kOfPerfAnalyzer[] = {
    {"--async", kInFlight},
    {"-a", kInFlight},
    {"--sync", kInFlight},
    {"--max-threads", "leave it out: one thread sends the requests of all connections"},
    {"--streaming", "leave it out: each request has one answer; -i grpc keeps its connections open"},
    {"--measurement-mode", "leave it out: windows are of a time, -p MS; --request-count N measures N requests"},
    {"--measurement-request-count", "give --request-count N"},
    {"-f", "give --json FILE for a report, --dims NAME=N for a free dimension"},
    {"--verbose-csv", "give --json FILE"},
    {"--profile-export-file", "give --json FILE"},
    {"--collect-metrics", "peri top URL shows the server's metrics"},
    {"--metrics-url", "peri top URL shows the server's metrics"},
    {"--metrics-interval", "peri top URL shows the server's metrics"},
    {"--binary-search", "give a --concurrency-range and -l MS: the range ends at the first load that is slower"},
    {"--request-intervals", "give --request-rate-range A:B:S"},
    {"--shared-memory", kNoShared},
    {"--output-shared-memory-size", kNoShared},
    {"--serial-sequences", "leave it out: the requests of a sequence are sent one after another"},
    {"--start-sequence-id", "give --sequence-id-range FIRST:LAST"},
    {"--service-kind", "leave it out: --endpoint URL is a server of KServe v2, such as peri serve or Triton"},
    {"--string-data", "give --input-data FILE"},
    {"--string-length", "give --input-data FILE"},
};

std::string with_hyphens(const std::string& word) {
  if (!word.starts_with("--")) return word;
  std::string out;
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isupper(byte)) out += '-';
    out += static_cast<char>(std::tolower(byte));
  }
  return out;
}

bool has_flag(const Command& c, std::string_view name) {
  return std::any_of(c.flags.begin(), c.flags.end(), [&](const Flag& f) { return f.name == name; });
}
}  // namespace

std::string_view advice_on(const Command& command, std::string_view word) {
  const auto in = [&](std::span<const Elsewhere> table) {
    const auto at = std::find_if(table.begin(), table.end(), [&](const Elsewhere& e) { return e.word == word; });
    return at == table.end() ? std::string_view() : at->advice;
  };
  return command.name == "serve" ? in(kOfTriton) : command.name == "bench" ? in(kOfPerfAnalyzer) : std::string_view();
}

std::string_view advice_on_twice(const Command& command, std::string_view flag) {
  return command.name == "serve" && flag == "--model-repository"
             ? "a server has one repository: link the folders of all models into one"
             : std::string_view();
}

std::string_view advice_on_arguments(const Command& command) {
  return command.name == "serve"
             ? "models lie in a repository, as NAME/1/model.onnx: give its folder by --model-repository DIR"
             : std::string_view();
}

std::string_view command_elsewhere(std::string_view word) {
  static constexpr std::pair<std::string_view, std::string_view> kCommands[] = {
      {"convert", "peri build MODEL -o ENGINE"},
      {"compile", "peri build MODEL -o ENGINE"},
      {"optimize", "peri build MODEL -o ENGINE"},
      {"infer", "peri run MODEL --input NAME=FILE"},
      {"benchmark", "peri bench MODEL"},
      {"perf", "peri bench MODEL"},
      {"profile", "peri bench MODEL --layers"},
      {"validate", "peri verify MODEL"},
      {"debug", "peri verify MODEL --bisect"},
      {"info", "peri inspect MODEL"},
      {"show", "peri inspect MODEL"},
      {"server", "peri serve --model-repository DIR"}};
  for (const auto& [other, own] : kCommands)
    if (word == other) return own;
  return word.starts_with('-') ? "a command comes first: peri build MODEL -o ENGINE; see: peri --help" : "";
}

std::vector<std::string_view> words_in(std::string_view list) {
  std::vector<std::string_view> out;
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    if (end > 0) out.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return out;
}

Spelt our_spelling(const Command& command, const std::string& word) {
  Spelt out{with_hyphens(word), {}, false};
  for (const Flag& f : command.flags)
    for (const std::string_view other : words_in(f.also))
      if (out.word == other) return {std::string(f.name), {}, false};
  for (const Shorthand& s : kShorthands)
    if (out.word == s.word && has_flag(command, s.flag)) return {std::string(s.flag), std::string(s.value), false};
  for (const std::string_view model : kModels)
    out.positional =
        out.positional || (out.word == model && command.positional.find("MODEL") != std::string_view::npos);
  return out;
}

// Programs with gflags take -hint and --hint alike.
static bool same_flag(std::string_view theirs, std::string_view given) {
  const bool short_form = theirs.size() > 2 && theirs[1] != '-';
  return theirs == given || (short_form && given.starts_with("--") && given.substr(1) == theirs);
}

// Which command has the flag that an advice begins with, where this one has not: "of peri bench: --seconds N".
static std::string with_command(const Command& command, std::string_view advice) {
  const std::string_view flag = advice.substr(0, advice.find_first_of(" ;,:"));
  if (!flag.starts_with("--") || has_flag(command, flag)) return std::string(advice);
  for (const Entry* e : entries())
    if (!e->command.hidden && has_flag(e->command, flag))
      return "of peri " + std::string(e->command.name) + ": " + std::string(advice);
  return std::string(advice);
}

std::string advice_elsewhere(const Command& command, const std::string& word) {
  const std::string ours = with_hyphens(word);
  for (const OtherFlags& others : flags_of_others())
    for (const std::string_view other : words_in(others.words))
      if (same_flag(other, ours) && (others.command.empty() || others.command == command.name))
        return with_command(command, others.advice);
  for (const Entry* e : entries())
    for (const Flag& f : e->command.flags) {
      const std::vector<std::string_view> also = words_in(f.also);
      if (e->command.hidden || (f.name != ours && std::find(also.begin(), also.end(), ours) == also.end())) continue;
      return "it is a flag of peri " + std::string(e->command.name);
    }
  return "";
}

}  // namespace peri::cli
