// peri bench --endpoint: puts load on a server, with perf_analyzer's flags.
#pragma once

#include "cli/entry.hpp"
#include "serve/load/endpoint.hpp"

namespace peri::cli {

// Additional flags of `bench` for servers.
std::vector<Flag> endpoint_flags();
Result<Outcome> bench_endpoint(const Arguments& arguments);
// The authorities trusted for TLS, from --ssl-https-ca-certificates-file and --ssl-https-verify-peer, and the own
// certificate, from --ssl-https-client-certificate-file and --ssl-https-private-key-file.
Status read_trust(const Arguments& arguments, const std::string& url, serve::Endpoint* out);
// "a:b:s" or "a", numbers in [low, high], as the list a, a + s, ... up to b. Default of s: 1. Errors: kUsage.
Result<std::vector<double>> range_of(const Arguments& arguments, std::string_view flag, double low, double high);

}  // namespace peri::cli
