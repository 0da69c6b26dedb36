// A small engine loads in half a millisecond and oneDNN in five (benchmarks/results/2026-11-23_small_engine_memory.md).
#include "exec/ahead.hpp"

#include <algorithm>
#include <thread>

#include "base/fault.hpp"
#include "kernels/vendor/library.hpp"

namespace peri::exec {

namespace {
bool names(const plan::Program& program, const std::string& library) {
  return std::any_of(program.steps.begin(), program.steps.end(), [&](const plan::Step& step) {
    return std::any_of(step.variants.begin(), step.variants.end(),
                       [&](const plan::Variant& v) { return v.library == library; }) ||
           std::any_of(step.bodies.begin(), step.bodies.end(), [&](const auto& body) { return names(*body, library); });
  });
}
}  // namespace

std::shared_ptr<const void> open_ahead(const plan::Program& program) {
  if (!names(program, kernels::vendor::onednn_library())) return nullptr;
  auto begun = contained([]() -> Result<std::shared_ptr<const void>> {
    return std::shared_ptr<const void>(
        std::make_shared<const std::jthread>([] { (void)contained(kernels::vendor::open_onednn).ok(); }));
  });
  return begun.ok() ? std::move(*begun) : nullptr;  // no thread is to be had: it is opened when it is needed
}

}  // namespace peri::exec
