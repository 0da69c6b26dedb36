// Runs a suite folder (CASE/model.onnx, CASE/test_data_set_*/{input,output}_*.pb) through the importer and the
// reference:
//   suite_reference DIR [PART_OF_NAME] [--all]
// One line a case that does not pass (--all: every case), a summary at the end; exit 1 if a case fails.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "onnx/import.hpp"
#include "onnx/tensor_file.hpp"
#include "ops/entry.hpp"

namespace peri {
namespace {

namespace fs = std::filesystem;

struct Tolerance {
  double rtol = 1e-3, atol = 1e-7;
};

// First difference as text; empty if equal within the tolerance. NaN equals NaN; integers, bool and strings are exact.
std::string difference(const Tensor& want, const Tensor& got, Tolerance tolerance) {
  if (want.dtype() != got.dtype() || want.dims() != got.dims())
    return "expected " + tensor_type_text(want) + ", got " + tensor_type_text(got);
  for (int64_t k = 0; k < want.numel(); ++k) {
    const size_t at = static_cast<size_t>(k);
    if (want.dtype() == DType::kString) {
      if (want.string_values()[at] != got.string_values()[at])
        return format("element %zu: '%s' for '%s'", at, got.string_values()[at].c_str(),
                      want.string_values()[at].c_str());
    } else if (is_float(want.dtype())) {
      const double w = want.f64(k), g = got.f64(k);
      if (w == g || (std::isnan(w) && std::isnan(g))) continue;
      if (!(std::fabs(w - g) <= tolerance.atol + tolerance.rtol * std::fabs(w)))
        return format("element %zu: %.9g for %.9g", at, g, w);
    } else if (want.i64(k) != got.i64(k)) {
      return format("element %zu: %lld for %lld", at, static_cast<long long>(got.i64(k)),
                    static_cast<long long>(want.i64(k)));
    }
  }
  return "";
}

std::string numbered(const fs::path& set, const char* stem, size_t k) {
  return (set / (std::string(stem) + "_" + std::to_string(k) + ".pb")).string();
}

Result<std::string> run_set(const onnx::ImportedModel& model, const fs::path& set, Tolerance tolerance) {
  std::vector<ops::RefTensor> inputs;
  for (size_t k = 0; k < model.graph.inputs.size(); ++k) {
    PERI_ASSIGN(const onnx::NamedTensor t, onnx::read_tensor_file(numbered(set, "input", k)));
    inputs.push_back(ops::to_ref(t.tensor));
  }
  PERI_ASSIGN(const auto outputs, ops::run_reference(model.graph, inputs, {.round_each = true}));
  for (size_t k = 0; k < outputs.size(); ++k) {
    PERI_ASSIGN(const onnx::NamedTensor want, onnx::read_tensor_file(numbered(set, "output", k)));
    const Tensor got = ops::from_ref(outputs[k]);
    Tolerance t = tolerance;
    if (want.tensor.dtype() == DType::kBF16) t.rtol = 0x1p-6;
    if (const std::string d = difference(want.tensor, got, t); !d.empty())
      return model.graph.output_names[k] + ": " + d;
  }
  return std::string();
}

enum class Verdict { kPass, kFail, kUnsupported };

Verdict run_case(const fs::path& dir, std::string* why) {
  const auto failed = [&](const Error& e) {
    *why = e.text();
    return e.kind == ErrorKind::kUnsupported ? Verdict::kUnsupported : Verdict::kFail;
  };
  auto model = onnx::import_model((dir / "model.onnx").string());
  if (!model.ok()) return failed(model.error());
  std::error_code ignored;
  bool any = false;
  for (const auto& entry : fs::directory_iterator(dir, ignored)) {
    if (!entry.path().filename().string().starts_with("test_data_set_")) continue;
    any = true;
    auto d = run_set(*model, entry.path(), {});
    if (!d.ok()) return failed(d.error());
    if (!d->empty()) {
      *why = *d;
      return Verdict::kFail;
    }
  }
  if (!any) {
    *why = "no test_data_set_*";
    return Verdict::kFail;
  }
  return Verdict::kPass;
}

int run_suite(const char* root, std::string_view filter, bool all) {
  std::vector<fs::path> cases;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root, ignored))
    if (entry.path().filename().string().find(filter) != std::string::npos && fs::exists(entry.path() / "model.onnx"))
      cases.push_back(entry.path());
  std::sort(cases.begin(), cases.end());
  int count[3] = {};
  for (const fs::path& dir : cases) {
    static constexpr const char* kNames[] = {"PASS", "FAIL", "UNSUPPORTED"};
    std::string why;
    const Verdict v = run_case(dir, &why);
    ++count[static_cast<int>(v)];
    if (all || v != Verdict::kPass)
      std::printf("%s %s %s\n", kNames[static_cast<int>(v)], dir.filename().c_str(), why.c_str());
    std::fflush(stdout);
  }
  std::printf("%zu cases: %d pass, %d fail, %d unsupported\n", cases.size(), count[0], count[1], count[2]);
  return cases.empty() || count[1] ? 1 : 0;
}

}  // namespace
}  // namespace peri

int main(int argc, char** argv) {
  bool all = false;
  const char* words[2] = {nullptr, ""};
  int n = 0;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--all")) {
      all = true;
    } else if (n < 2) {
      words[n++] = argv[i];
    }
  }
  if (!words[0]) {
    std::fprintf(stderr, "usage: suite_reference DIR [PART_OF_NAME] [--all]\n");
    return 2;
  }
  return peri::run_suite(words[0], words[1], all);
}
