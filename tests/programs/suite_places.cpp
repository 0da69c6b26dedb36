// suite_places SUITE TARGET [FILTER]: where the steps of a suite's cases would run on the machine of TARGET, without
// that machine, as `peri verify --suite SUITE --backend cuda` builds them: a JSON object a case with its number of
// steps and, for each on the host, its region as text, operators and types, and what was chosen for it.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "base/json.hpp"
#include "build/request.hpp"
#include "compile/compile.hpp"
#include "device/target.hpp"
#include "onnx/tensor_file.hpp"
#include "problem/problem.hpp"

namespace peri {
namespace {
namespace fs = std::filesystem;

Result<compile::Compiled> planned(const fs::path& dir, const device::Target& target) {
  build::Request request;
  request.model = (dir / "model.onnx").string();
  request.backend = "cuda";
  request.tune = request.verify = request.worker = false;
  const fs::path set = dir / "test_data_set_0";
  for (size_t k = 0; fs::exists(set / ("input_" + std::to_string(k) + ".pb")); ++k)
    if (auto t = onnx::read_tensor_file((set / ("input_" + std::to_string(k) + ".pb")).string()); t.ok())
      request.at_hand.push_back({t->name, t->tensor.dims()});
  PERI_ASSIGN(compile::Options options, build::options_of(request));
  options.tune.target = target;
  return compile::compile(std::move(options));
}

// The operators of a region, and the types of all its values; neither of one whose sizes are open.
void describe(JsonWriter& w, const std::string& text) {
  std::set<std::string> ops, types;
  if (const auto region = problem::parse(text); region.ok()) {
    for (const ir::Node* n : region->graph.nodes)
      if (n->op != "dims_constant") ops.insert(n->op);
    for (const auto& v : region->graph.values()) types.insert(std::string(dtype_name(v->type.dtype)));
  }
  for (const auto& [key, all] : {std::pair("operators", &ops), std::pair("types", &types)}) {
    w.key(key).begin_array();
    for (const std::string& one : *all) w.value(one);
    w.end_array();
  }
}

void list(JsonWriter& w, const compile::Compiled& made) {
  int64_t host = 0;
  for (const plan::Step& s : made.program.steps) host += s.device == plan::kHost;
  w.field("steps", static_cast<int64_t>(made.program.steps.size())).field("on_host", host).key("host").begin_array();
  for (const lower::StepReport& s : made.steps)
    if (s.device.empty()) {
      w.begin_object().field("region", s.problem).field("chosen", s.chosen).field("bodies", !s.bodies.empty());
      describe(w, s.problem);
      w.end_object();
    }
  w.end_array();
}

Status run(int count, char** words) {
  if (count < 3) return usage("suite_places SUITE TARGET [FILTER]");
  PERI_ASSIGN(const device::Target target, device::read_target(words[2]));
  std::vector<fs::path> cases;
  for (const auto& entry : fs::directory_iterator(words[1]))
    if (fs::exists(entry.path() / "model.onnx") &&
        (count < 4 || entry.path().filename().string().find(words[3]) != std::string::npos))
      cases.push_back(entry.path());
  std::sort(cases.begin(), cases.end());
  if (cases.empty()) return usage("no case").in_file(words[1]);
  for (const fs::path& dir : cases) {
    JsonWriter w;
    w.begin_object().field("case", dir.filename().string());
    const Status done = contained([&]() -> Status {
      PERI_ASSIGN(const compile::Compiled made, planned(dir, target));
      list(w, made);
      return Ok{};
    });
    if (!done.ok()) w.field("error", done.error().text());
    w.end_object();
    std::printf("%s\n", w.take().c_str());
  }
  return Ok{};
}
}  // namespace
}  // namespace peri

int main(int count, char** words) {
  const peri::Status done = peri::run(count, words);
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.error().text().c_str());
  return done.ok() ? 0 : 1;
}
