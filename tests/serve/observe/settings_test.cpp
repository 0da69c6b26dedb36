// Settings of traces and of the log: what clients may change, how a model's own stand beside those of all, and that
// what is wrong changes nothing.
#include <gtest/gtest.h>

#include "serve/observe/server_log.hpp"
#include "serve/observe/trace_settings.hpp"

namespace peri::serve {
namespace {

template <class... Model>
std::string change(auto& settings, const std::string& json, const Model&... model) {
  const Status s = settings.update(model..., *parse_json(json));
  return s.ok() ? "" : s.error().text();
}

int drawn(TraceSettings& t, std::string_view model, int of, std::optional<bool> caller = std::nullopt) {
  int out = 0;
  for (int k = 0; k < of; ++k) out += t.take(model, caller);
  return out;
}

TEST(TraceSettings, RateCountAndLevel) {
  TraceSettings t({true, 3, -1});
  EXPECT_EQ(t.text(""),
            R"({"trace_level":["TIMESTAMPS"],"trace_rate":"3","trace_count":"-1","log_frequency":"0","trace_file":"",)"
            R"("trace_mode":"opentelemetry"})");
  EXPECT_EQ(drawn(t, "m", 9), 3);
  EXPECT_EQ(drawn(t, "m", 9, true), 9) << "the caller decides";
  EXPECT_EQ(drawn(t, "m", 9, false), 0);
  EXPECT_EQ(change(t, R"({"trace_rate":"1","trace_count":"4"})", ""), "");
  EXPECT_EQ(drawn(t, "m", 3), 3);
  EXPECT_NE(t.text("").find(R"("trace_count":"1")"), std::string::npos) << "what is left";
  EXPECT_EQ(drawn(t, "m", 9, true), 1);
  EXPECT_EQ(change(t, R"({"trace_count":null,"trace_level":["OFF"]})", ""), "");
  EXPECT_EQ(drawn(t, "m", 9, true), 0);
  EXPECT_EQ(change(t, R"({"trace_level":null,"trace_rate":null})", ""), "");
  EXPECT_EQ(drawn(t, "m", 9), 3) << "as the server was started";
}

TEST(TraceSettings, AModelsOwn) {
  TraceSettings t({true, 2, -1});
  EXPECT_EQ(change(t, R"({"trace_rate":"1"})", "m"), "");
  EXPECT_EQ(drawn(t, "m", 8), 8);
  EXPECT_EQ(drawn(t, "n", 8), 4);
  EXPECT_EQ(change(t, R"({"trace_level":["OFF"]})", ""), "");
  EXPECT_EQ(drawn(t, "m", 8), 0) << "what it does not say is as for all";
  EXPECT_EQ(change(t, R"({"trace_level":["TIMESTAMPS"],"trace_count":"2"})", "m"), "");
  EXPECT_EQ(drawn(t, "m", 8), 2);
  EXPECT_EQ(drawn(t, "n", 8), 0);
  EXPECT_EQ(change(t, R"({"trace_level":null,"trace_rate":null,"trace_count":null})", "m"), "");
  EXPECT_EQ(t.text("m"), t.text(""));
}

TEST(TraceSettings, WhatIsRefusedChangesNothing) {
  TraceSettings t({true, 2, -1});
  const std::string before = t.text("");
  for (const auto& [json, want] :
       {std::pair{R"({"trace_rate":"1","trace_count":"-5"})", "Expecting value >= -1, got: -5"},
        {R"({"trace_rate":"x"})", "Unable to parse 'trace_rate', got: x"},
        {R"({"trace_rate":"0"})", "Expecting value >= 1"},
        {R"({"trace_rate":5})", "expected string"},
        {R"({"trace_level":"OFF"})", "expected array"},
        {R"({"trace_level":["TENSORS"]})", "'TENSORS' is not known here"},
        {R"({"trace_file":"/tmp/x"})", "can not be updated through network protocol"},
        {R"({"log_frequency":"5"})", "of trace files"},
        {R"({"trace_mode":"triton"})", "opentelemetry"},
        {R"({"trace-rate":"5"})", "'trace-rate' is not a trace setting"},
        {R"([])", "expected object"}})
    EXPECT_NE(change(t, json, "").find(want), std::string::npos) << json << change(t, json, "");
  EXPECT_EQ(t.text(""), before);
  EXPECT_EQ(change(t, R"({"log_frequency":"0","trace_mode":"opentelemetry"})", ""), "");
  TraceSettings none({});
  EXPECT_EQ(drawn(none, "m", 5, true), 0);
  EXPECT_NE(none.text("").find(R"(["OFF"])"), std::string::npos);
  EXPECT_NE(change(none, R"({"trace_level":["TIMESTAMPS"]})", "").find("--otlp-endpoint"), std::string::npos);
}

TEST(ServerLog, LevelsAndForm) {
  std::vector<std::string> lines;
  ServerLog log({}, [&](const std::string& line) { lines.push_back(line); });
  EXPECT_EQ(log.text(), R"({"log_file":"","log_info":true,"log_warning":true,"log_error":true,"log_verbose_level":0,)"
                        R"("log_format":"default"})");
  const auto all = [&] {
    lines.clear();
    log.say({LogLevel::kVerbose, "v"});
    log.say("i");
    log.say({LogLevel::kWarning, "w"});
    log.say({LogLevel::kError, "e"});
    return lines;
  };
  using Lines = std::vector<std::string>;
  EXPECT_EQ(all(), (Lines{"serve: i", "serve: w", "serve: e"}));
  EXPECT_FALSE(log.verbose());
  EXPECT_EQ(change(log, R"({"log_verbose_level":1,"log_info":false,"log_warning":false})"), "");
  EXPECT_TRUE(log.verbose());
  EXPECT_EQ(all(), (Lines{"serve: v", "serve: e"}));
  EXPECT_EQ(change(log, R"({"log_format":"ISO8601","log_verbose_level":0})"), "");
  EXPECT_EQ(all().size(), 1u);
  EXPECT_EQ(lines[0].substr(10, 1) + lines[0].substr(19), "TZ E serve: e") << lines[0];
  const std::string before = log.text();
  for (const auto& [json, want] :
       {std::pair{R"({"log_info":true,"log_format":"x"})", "invalid argument for log_format"},
        {R"({"log_file":"/tmp/x"})", "can not be updated through network protocol"},
        {R"({"log_info":1})", "expected boolean"},
        {R"({"log_verbose_level":-1})", "integer >= 0"},
        {R"({"log_verbose":1})", "'log_verbose' is not a log setting"}})
    EXPECT_NE(change(log, json).find(want), std::string::npos) << json << change(log, json);
  EXPECT_EQ(log.text(), before);
}

}  // namespace
}  // namespace peri::serve
