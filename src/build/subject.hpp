// The subject of verify and suites, built or opened according to a request: one engine with the graph it must agree
// with, or the engines of a folder of cases.
#pragma once

#include "build/request.hpp"
#include "judge/suite.hpp"
#include "judge/verify.hpp"

namespace peri::build {

// request.model is a model or an engine. A model is built as peri build does; its graph is the one before any pass,
// so that the passes are judged too; kRefused, before anything is built, where its reference would take hours and
// `affordable` is set. The graph of an engine is its source; omitted where `reference` is false.
Result<judge::Subject> open_subject(const Request& request, bool reference, bool affordable = false);

// The engine with its own source; nothing is built.
Result<judge::Subject> subject_of(std::shared_ptr<const runtime::Engine> engine, const std::string& path);

// Whether the engines of a suite share one device of this machine: its backend's target is another than the CPU.
bool shares_device(const Request& request);
// Builds the engines of a suite: all in this process, verified and not measured, so that a candidate that is wrong here
// is replaced as in a real build. Where they share a device it is opened for the first, and nothing is verified before
// the comparison with the case's outputs. Thread-safe.
judge::SuiteBuilder suite_builder(const Request& request);

}  // namespace peri::build
