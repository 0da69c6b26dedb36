// Prints a line per load of the range; the results of all loads are one object.
#include "cli/console/endpoint.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/json.hpp"
#include "base/plural.hpp"
#include "cli/console/page.hpp"
#include "cli/console/sequences.hpp"
#include "cli/console/terminal.hpp"
#include "serve/load/load.hpp"

namespace peri::cli {

std::vector<Flag> endpoint_flags() {
  std::vector<Flag> out = {
      {"--endpoint", "-u", "URL", "send load to a server: http://HOST:PORT, https://, grpc://, grpcs:// or unix:PATH"},
      {"--model-name", "-m", "NAME", "with --endpoint: the model"},
      {"--model-version", "-x", "N", "with --endpoint: its version (default: the latest)"},
      {"--batch-size", "-b", "N", "with --endpoint: rows of a request (default 1)"},
      {"--shape", "", "NAME:D,D,...", "with --endpoint: the shape of an input with open dimensions", true},
      {"--input-data", "", "random|zero|FILE",
       "with --endpoint: values of the inputs (default random, seeded), or a file of them in perf_analyzer's JSON, or "
       "a folder with a file for each input"},
      {"--concurrency-range", "", "A:B:S",
       "with --endpoint: requests in flight, from A to B in steps of S (default 1)"},
      {"--request-rate-range", "", "A:B:S",
       "with --endpoint: requests a second, regardless of how the server keeps up"},
      {"--request-distribution", "", "poisson|constant",
       "with a rate: distribution of the gaps between requests (default poisson)"},
      {"--max-connections", "", "N", "with a rate: maximum number of connections (default 1024)"},
      {"--measurement-interval", "-p", "MS",
       "with --endpoint: length of a window (default 1000); three windows that agree end the measurement"},
      {"--stability-percentage", "-s", "PERCENT",
       "with --endpoint: largest allowed disagreement of the windows (default 10)"},
      {"--max-trials", "-r", "N", "with --endpoint: maximum number of windows (default 10)"},
      {"--request-count", "", "N",
       "with --endpoint: send exactly N requests of each load and measure them, instead of windows"},
      {"--warmup-request-count", "", "N", "with --endpoint: warm up by N requests, instead of a time"},
      {"--percentile", "", "P", "with --endpoint: the latency percentile to report and compare (default 99)"},
      {"--latency-threshold", "-l", "MS",
       "with --endpoint: slower responses do not count as goodput and end the range"},
      {"--key-file", "", "FILE", "with --endpoint: send the first line of FILE as the bearer token"},
      {"--header", "-H", "NAME:VALUE", "with --endpoint: send this header field, of gRPC metadata", true},
      {"--client-timeout", "", "MS", "with --endpoint: timeout of a request (default 10000)"},
      {"--ssl-https-ca-certificates-file", "", "FILE",
       "TLS: trusted certificate authorities in PEM, for gRPC too (default: the system's)"},
      {"--ssl-https-verify-peer", "", "0|1", "TLS: 0 accepts any certificate (default 1)"},
      {"--ssl-https-client-certificate-file", "", "FILE",
       "TLS: the client's own certificate in PEM, for gRPC too, for servers that ask for one", false, nullptr,
       "--ssl-grpc-certificate-chain-file"},
      {"--ssl-https-private-key-file", "", "FILE", "TLS: its private key in PEM", false, nullptr,
       "--ssl-grpc-private-key-file"},
      {"--ssl-grpc-use-ssl", "", "", "with -i grpc: use TLS, like grpcs://"},
      {"--ssl-grpc-root-certifications-file", "", "FILE", "the same as --ssl-https-ca-certificates-file"},
  };
  for (const Flag& f : sequence_flags()) out.push_back(f);
  return out;
}

Result<std::vector<double>> range_of(const Arguments& arguments, std::string_view flag, double low, double high) {
  const std::string text = arguments.get(flag);
  double v[3] = {0, 0, 1};
  const char* at = text.data();
  const char* const end = at + text.size();
  int n = 0;
  bool good = false;
  for (; n < 3; ++n) {
    const auto read = std::from_chars(at, end, v[n]);
    good = read.ec == std::errc() && std::isfinite(v[n]);
    at = read.ptr;
    if (!good || at == end) break;
    good = *at++ == ':';
    if (!good) break;
  }
  if (n == 0) v[1] = v[0];
  good = good && at == end && n < 3 && v[0] >= low && v[1] >= v[0] && v[1] <= high && v[2] > 0 &&
         (v[1] - v[0]) / v[2] < 1000;
  if (!good)
    return usage("%s is not a range", arguments.spelled(flag).c_str())
        .expecting(format("FIRST:LAST:STEP or one number, from %g to %g, at most 1000 of them", low, high))
        .but_found(text);
  std::vector<double> out;
  const auto steps = static_cast<int64_t>((v[1] - v[0]) / v[2] + 1e-9);
  for (int64_t k = 0; k <= steps; ++k) out.push_back(v[0] + static_cast<double>(k) * v[2]);
  return out;
}

Status read_trust(const Arguments& a, const std::string& url, serve::Endpoint* out) {
  const std::string verify = a.get("--ssl-https-verify-peer", "1");
  if (verify != "0" && verify != "1") return usage("--ssl-https-verify-peer '%s'", verify.c_str()).expecting("0 or 1");
  constexpr const char *kTrusted = "--ssl-https-ca-certificates-file",
                       *kTheSame = "--ssl-grpc-root-certifications-file";
  if (a.has(kTrusted) && a.has(kTheSame)) return usage("%s and %s are the same: give one of them", kTrusted, kTheSame);
  const std::string trusted = a.get(a.has(kTrusted) ? kTrusted : kTheSame);
  if (!trusted.empty() && !out->secure)
    return usage("certificates need TLS").advise("https://HOST:PORT or grpcs://HOST:PORT").but_found(url);
  if (a.has("--ssl-https-verify-peer") && !out->secure)
    return usage("--ssl-https-verify-peer needs TLS").advise("https://HOST:PORT or grpcs://HOST:PORT").but_found(url);
  constexpr const char *kCertificate = "--ssl-https-client-certificate-file", *kKey = "--ssl-https-private-key-file";
  if (a.has(kCertificate) != a.has(kKey))
    return usage("%s and %s go together", a.has(kKey) ? kCertificate : a.spelled(kCertificate).c_str(),
                 a.has(kKey) ? a.spelled(kKey).c_str() : kKey);
  if (a.has(kKey) && !out->secure)
    return usage("certificates need TLS").advise("https://HOST:PORT or grpcs://HOST:PORT").but_found(url);
  if (out->secure) {
    PERI_ASSIGN(out->tls, serve::TlsContext::trust(trusted, verify == "1", {a.get(kCertificate), a.get(kKey)}));
  }
  return Ok{};
}

namespace {

Result<std::map<std::string, std::vector<int64_t>>> shapes_of(const Arguments& a) {
  std::map<std::string, std::vector<int64_t>> out;
  for (const std::string& item : a.all("--shape")) {
    const size_t colon = item.rfind(':');
    std::vector<int64_t> dims;
    const char* at = item.data() + (colon == std::string::npos ? item.size() : colon + 1);
    const char* const end = item.data() + item.size();
    bool good = colon != std::string::npos && colon > 0 && at < end;
    while (good && at < end) {
      int64_t d = 0;
      const auto read = std::from_chars(at, end, d);
      good = read.ec == std::errc() && d >= 0 && d <= int64_t{1} << 28;
      dims.push_back(d);
      at = read.ptr;
      if (at == end) break;
      good = good && (*at == ',' || *at == 'x');
      ++at;
      good = good && at < end;
    }
    if (!good) return usage("--shape is not NAME:DIM,DIM,...").but_found(item);
    if (!out.emplace(item.substr(0, colon), dims).second)
      return usage("--shape gives input '%s' two shapes", item.substr(0, colon).c_str()).advise("give each input one");
  }
  return out;
}

// The protocol is that of the URL's scheme, or of -i if the URL has none.
Result<serve::Endpoint> endpoint_of(const Arguments& a) {
  const std::string url = a.get("--endpoint");
  std::string protocol;
  if (a.all("--input").size() > 1) return usage("with --endpoint, -i is the protocol, and is given twice");
  for (const std::string& said : a.all("--input")) {
    for (const char c : said) protocol.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
    if (protocol != "http" && protocol != "grpc")
      return usage("with --endpoint, -i names the protocol").expecting("http or grpc").but_found(said);
  }
  const bool grpc = protocol == "grpc";
  PERI_ASSIGN(serve::Endpoint out, serve::Endpoint::parse(url, grpc ? 8001 : 8000, true));
  const bool scheme = url.find("://") != std::string::npos;
  if (scheme && !protocol.empty() && grpc != out.grpc)
    return usage("-i %s contradicts the URL's scheme", protocol.c_str()).but_found(url);
  out.grpc = out.grpc || grpc;
  if (a.has("--ssl-grpc-use-ssl") && !out.grpc) return usage("--ssl-grpc-use-ssl is for gRPC").advise("-i grpc");
  out.secure = out.secure || a.has("--ssl-grpc-use-ssl");
  PERI_TRY(read_trust(a, url, &out));
  if (a.has("--key-file")) PERI_TRY(out.read_key(a.get("--key-file")));
  for (const std::string& header : a.all("--header")) PERI_TRY(out.add_header(header));
  return out;
}

Result<serve::LoadSubject> subject_of(const Arguments& a) {
  serve::LoadSubject s;
  PERI_ASSIGN(s.endpoint, endpoint_of(a));
  s.model = a.get("--model-name");
  if (s.model.empty()) return usage("--endpoint needs the model's name").advise("give -m NAME");
  // The name becomes part of the request's path unescaped.
  if (std::any_of(s.model.begin(), s.model.end(), [](unsigned char c) {
        return c <= ' ' || c == 0x7f || c == '/' || c == '?' || c == '#' || c == '%';
      }))
    return usage("this is not a valid model name").expecting("no spaces, '/', '?', '#' or '%'").but_found(s.model);
  if (a.has("--model-version")) {
    PERI_ASSIGN(const int64_t version, a.number("--model-version", 1, INT64_MAX, 1));
    s.version = std::to_string(version);
  }
  PERI_ASSIGN(s.batch, a.number("--batch-size", 1, 1 << 20, 1));
  s.batch_given = a.has("--batch-size");
  PERI_ASSIGN(s.shapes, shapes_of(a));
  PERI_ASSIGN(s.sequence, sequences_of(a));
  const std::string data = a.get("--input-data", "random");
  if (data != "random" && data != "zero") s.data_path = data;
  s.zeros = data == "zero";
  if (!a.positional.empty()) return usage("--endpoint loads a server's model").advise("leave out " + a.positional[0]);
  return s;
}

Result<serve::LoadTerms> terms_of(const Arguments& a) {
  serve::LoadTerms t;
  PERI_ASSIGN(const double interval, a.real("--measurement-interval", 10, 3600e3, 1000));
  PERI_ASSIGN(const double stability, a.real("--stability-percentage", 0.01, 1000, 10));
  PERI_ASSIGN(const int64_t trials, a.number("--max-trials", 3, 10000, 10));
  PERI_ASSIGN(const double percentile, a.real("--percentile", 1, 100, 99));
  PERI_ASSIGN(const double threshold, a.real("--latency-threshold", 0, 3600e3, 0));
  PERI_ASSIGN(const double timeout, a.real("--client-timeout", 1, 3600e3, 10000));
  PERI_ASSIGN(const double warm_up, a.real("--warm-up", 0, 3600e3, 200));
  for (const char* flag : {"--max-connections", "--request-distribution"})
    if (a.has(flag) && !a.has("--request-rate-range"))
      return usage("%s is for loads at a rate", a.spelled(flag).c_str())
          .expecting("--request-rate-range")
          .advise("leave it out, or give a rate");
  PERI_ASSIGN(t.connections, a.number("--max-connections", 1, 60000, 1024));
  const std::string gaps = a.get("--request-distribution", "poisson");
  if (gaps != "poisson" && gaps != "constant")
    return usage("--request-distribution '%s'", gaps.c_str()).expecting("poisson or constant");
  t.poisson = gaps == "poisson";
  for (const char* flag : {"--measurement-interval", "--stability-percentage", "--max-trials"})
    if (a.has("--request-count") && a.has(flag))
      return usage("%s is for windows, and --request-count measures as many requests", a.spelled(flag).c_str())
          .advise("leave one of them out");
  if (a.has("--warmup-request-count") && a.has("--warm-up"))
    return usage("--warm-up and --warmup-request-count are two ways to warm up").advise("leave one of them out");
  PERI_ASSIGN(t.count, a.number("--request-count", 1, int64_t{1} << 40, 0));
  PERI_ASSIGN(t.warm_up_count, a.number("--warmup-request-count", 1, int64_t{1} << 40, 0));
  t.interval_ns = static_cast<int64_t>(interval * 1e6);
  t.stability = stability / 100;
  t.trials = static_cast<int>(trials);
  t.quantile = percentile / 100;
  t.threshold_ns = static_cast<int64_t>(threshold * 1e6);
  t.timeout_ns = static_cast<int64_t>(timeout * 1e6);
  t.warm_up_ns = static_cast<int64_t>(warm_up * 1e6);
  t.stop = interrupted;
  return t;
}

double ms_at(const stats::Histogram& h, double q) { return static_cast<double>(h.quantile(q)) * 1e-6; }

// In nine columns; "-" where no request has a time.
std::string shown_ms(const stats::Histogram& h, double q) {
  return h.count() > 0 ? format("%9.3f", ms_at(h, q)) : format("%9s", "-");
}

void write_times(JsonWriter& w, std::string_view name, const stats::Histogram& h) {
  const auto field = [&](std::string_view key, double ms) {
    (void)(h.count() > 0 ? w.key(key).value(ms) : w.key(key).null());
  };
  w.key(name).begin_object();
  field("mean", h.mean() * 1e-6);
  for (const auto& [key, q] : {std::pair{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"p99.9", 0.999}})
    field(key, ms_at(h, q));
  field("max", static_cast<double>(h.most()) * 1e-6);
  w.key("histogram").begin_array();
  for (int k = 0; k < stats::Histogram::kRanges; ++k)
    if (h.in(k)) w.begin_array().value(static_cast<double>(h.end_of(k)) * 1e-6).value(h.in(k)).end_array();
  w.end_array().end_object();
}

// `checked`: the answers were compared with wanted ones.
void write_point(JsonWriter& w, const serve::LoadTerms& t, const serve::LoadResult& r, bool checked) {
  w.begin_object();
  if (t.rate > 0)
    w.field("request_rate", t.rate).field("distribution", t.poisson ? "poisson" : "constant");
  else
    w.field("concurrency", t.concurrency);
  w.field("per_second", r.per_second()).field("goodput", r.good_per_second()).field("seconds", r.seconds);
  w.field("ok", r.ok).key("errors").begin_object();
  for (const auto& [name, n] : r.errors) w.field(name, n);
  w.end_object();
  if (checked) w.field("mismatches", r.wrong());
  w.key("error_messages").begin_object();
  for (const auto& [name, words] : r.said) w.field(name, words);
  w.end_object();
  write_times(w, "latency_ms", r.latency);
  write_times(w, "service_ms", r.service);
  write_times(w, "failed_ms", r.failed_times);
  w.field("complete", !r.interrupted && !r.lost)
      .field("stable", r.stable)
      .field("windows", r.windows)
      .field("backlog", r.backlog);
  w.field("sent_late_ms", static_cast<double>(r.late_ns) * 1e-6).field("client_cpu", r.client_cpu).end_object();
}

void print_point(const Page& page, const serve::LoadTerms& t, const serve::LoadResult& r) {
  const double load = t.rate > 0 ? t.rate : static_cast<double>(t.concurrency);
  page.line("%9.6g %10.1f %10.1f %s %s %s %s %7llu  %s", load, r.per_second(), r.good_per_second(),
            shown_ms(r.latency, 0.5).c_str(), shown_ms(r.latency, 0.9).c_str(), shown_ms(r.latency, 0.95).c_str(),
            shown_ms(r.latency, 0.99).c_str(), static_cast<unsigned long long>(r.failed()),
            r.interrupted ? "interrupted"
            : r.lost      ? "lost"
            : r.stable    ? ""
                          : "not stable");
  for (const auto& [name, n] : r.errors)
    page.line("          %llu x %s", static_cast<unsigned long long>(n), r.error_text(name).c_str());
  if (r.backlog > 0)
    page.line("          %s due and not sent: every connection was waiting",
              counted(static_cast<int64_t>(r.backlog), "request").c_str());
  if (t.rate > 0 && static_cast<double>(r.late_ns) > 0.2 * static_cast<double>(r.latency.quantile(0.5)))
    page.line("          requests were sent up to %.3g ms late (p99): this machine is too busy for the client",
              static_cast<double>(r.late_ns) * 1e-6);
}

// The loads of the range: the terms of each value.
Result<std::vector<serve::LoadTerms>> points_of(const Arguments& a, const serve::LoadTerms& base) {
  const bool rate = a.has("--request-rate-range");
  if (rate && a.has("--concurrency-range"))
    return usage("--concurrency-range and --request-rate-range are two ways to load a server").advise("leave one out");
  std::vector<double> list = {1};
  if (rate) {
    PERI_ASSIGN(list, range_of(a, "--request-rate-range", 0.001, 1e7));
  } else if (a.has("--concurrency-range")) {
    PERI_ASSIGN(list, range_of(a, "--concurrency-range", 1, 60000));
    for (const double v : list)
      if (v != std::floor(v))
        return usage("%s is of whole numbers", a.spelled("--concurrency-range").c_str())
            .but_found(a.get("--concurrency-range"));
  }
  std::vector<serve::LoadTerms> out;
  for (const double v : list) {
    out.push_back(base);
    if (rate)
      out.back().rate = v;
    else
      out.back().concurrency = static_cast<int64_t>(v);
  }
  return out;
}
Error nothing_succeeded(const serve::LoadSubject& subject, const serve::LoadResult& r, const serve::LoadFacts& facts) {
  if (r.wrong() > 0)
    return Error(ErrorKind::kAccuracy, "no answer is right: " + r.error_text(serve::LoadResult::kWrong))
        .in_file(subject.endpoint.text());
  const std::string why = r.errors.empty() ? "none was answered" : r.error_text(r.errors.begin()->first);
  const bool stateful = facts.sequence == 0 && (facts.steps || why.find("correlation ID") != std::string::npos);
  return refused("no request succeeded: %s", why.c_str())
      .in_file(subject.endpoint.text())
      .advise(r.errors.empty() ? "give windows in which one can be: --measurement-interval MS"
              : stateful       ? "a model that keeps state needs requests of sequences: --sequence-length N"
                               : "");
}
}  // namespace

Result<Outcome> bench_endpoint(const Arguments& arguments) {
  PERI_ASSIGN(const serve::LoadSubject subject, subject_of(arguments));
  PERI_ASSIGN(const serve::LoadTerms base, terms_of(arguments));
  PERI_ASSIGN(auto points, points_of(arguments, base));
  serve::LoadFacts facts;
  PERI_ASSIGN(const serve::WireMaker maker,
              subject.endpoint.grpc ? serve::grpc_wire(subject, &facts) : serve::http_wire(subject, &facts));
  PERI_TRY(take_sequences(arguments, subject.sequence, facts, &points));
  const Page page(arguments);
  if (facts.sequence > 0)
    page.line("in sequences of %s%s", facts.listed ? "the file, about " : "about ",
              counted(facts.sequence, "request").c_str());
  page.line("%9s %10s %10s %9s %9s %9s %9s %7s", points[0].rate > 0 ? "rate/s" : "at once", "answers/s", "goodput/s",
            "p50 ms", "p90 ms", "p95 ms", "p99 ms", "failed");
  JsonWriter w;
  w.begin_object().field("endpoint", subject.endpoint.text()).field("model", subject.model).field("batch", facts.rows);
  if (facts.sequence > 0) w.field("sequence_length", facts.sequence);
  w.key("points").begin_array();
  Outcome out;
  bool stable = true, cut = false, whole = true;
  double best = 0;
  size_t measured = 0;
  uint64_t wrong = 0;
  for (const serve::LoadTerms& t : points) {
    auto found = serve::run_load(subject.endpoint, maker, t);
    cut = found.ok() ? found->interrupted : found.error().kind == ErrorKind::kCancelled;
    if (!found.ok() && measured == 0) return std::move(found).error();
    if (found.ok())
      out.error = found->ok == 0 ? nothing_succeeded(subject, *found, facts) : found->lost;
    else if (!cut)
      out.error = found.error();
    if (out.error && measured > 0 && (!found.ok() || (found->ok == 0 && found->wrong() == 0)))
      out.error->remedy = "requests of the loads before succeeded: has the server ended, or is it overloaded?";
    whole = found.ok() && !cut && !found->lost && (!out.error || measured + 1 == points.size());
    if (!found.ok()) break;
    const serve::LoadResult& r = *found;
    if (r.ok == 0 && measured == 0 && r.wrong() == 0) return *std::move(out.error);
    write_point(w, t, r, facts.checked);
    wrong += r.wrong();
    print_point(page, t, r);
    ++measured;
    stable = stable && (r.stable || cut);
    best = std::max(best, r.good_per_second());
    if (cut || out.error) break;
    if (t.threshold_ns > 0 && r.latency.quantile(t.quantile) > t.threshold_ns) break;
  }
  w.end_array().field("complete", whole);
  if (facts.checked) w.field("mismatches", wrong);
  out.json = w.end_object().take();
  out.summary = format("%s at %s: %zu load%s, most %.6g good answers a second", subject.model.c_str(),
                       subject.endpoint.text().c_str(), measured, measured == 1 ? "" : "s", best);
  if (cut) {
    out.code = exit_code(ErrorKind::kCancelled);
    out.summary += "; interrupted: not all that was asked for";
  } else if (!stable && !out.error) {
    out.code = exit_code(ErrorKind::kUnstable);
    out.summary += "; not stable: three windows in a row never agreed";
  }
  if (wrong > 0) {
    out.code = exit_code(ErrorKind::kAccuracy);
    out.summary += "; " + counted(static_cast<int64_t>(wrong), "answer") + (wrong == 1 ? " differs" : " differ") +
                   " from 'validation_data'";
  }
  return out;
}

}  // namespace peri::cli
