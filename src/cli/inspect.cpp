// peri inspect: what a model needs and whether it runs here, before anything is tuned; the contents of an engine, and
// with --check whether every weight is intact.
#include <algorithm>
#include <optional>
#include <set>

#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/plural.hpp"
#include "build/on_reference.hpp"
#include "build/proof.hpp"
#include "build/survey.hpp"
#include "cli/console/columns.hpp"
#include "cli/console/model.hpp"
#include "cli/console/page.hpp"
#include "cli/console/terminal.hpp"
#include "compile/own_names.hpp"
#include "exec/entry.hpp"
#include "exec/region/region_payload.hpp"
#include "onnx/import.hpp"
#include "ops/entry.hpp"
#include "plan/chip.hpp"
#include "plan/class_names.hpp"
#include "plan/engine_file.hpp"
#include "plan/iterations.hpp"
#include "plan/memory.hpp"
#include "tune/sample_regions.hpp"

namespace peri::cli {
namespace {
constexpr size_t kNameColumns = 24;

// The operator as it is listed; with its opset where functions of a model use it by several.
std::string listed(const onnx::OpUse& use, const std::vector<onnx::OpUse>& all) {
  const bool several = std::count_if(all.begin(), all.end(), [&](const onnx::OpUse& u) {
                         return u.supported && u.domain == use.domain && u.op == use.op;
                       }) > 1;
  return (use.domain.empty() ? "" : use.domain + ".") + use.op +
         (several ? format(" of opset %lld", static_cast<long long>(use.opset)) : "");
}

// The first of the names, and how many more there are.
std::string first_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 20;
  std::string out;
  for (size_t k = 0; k < std::min(names.size(), kShown); ++k) out += (k ? ", " : "") + names[k];
  return names.size() > kShown ? out + format(" and %zu more", names.size() - kShown) : out;
}

void print_model(const Page& page, const build::Survey& f, const std::string& provider) {
  page.line("%s: %s, %s", f.path.c_str(), f.kind.c_str(), f.origin.c_str());
  for (const auto& p : f.inputs)
    page.line("  input   %s %s", in_columns(p.name, kNameColumns).c_str(), ir::type_text(p.type).c_str());
  for (const auto& p : f.outputs)
    page.line("  output  %s %s", in_columns(p.name, kNameColumns).c_str(), ir::type_text(p.type).c_str());
  for (const auto& [name, axes] : f.symbols) {
    std::string list;
    for (const std::string& a : axes) list += (list.empty() ? "" : ", ") + a;
    page.line("  symbol  %s %s", in_columns(name, kNameColumns).c_str(), list.c_str());
  }
  page.line("  %s:", counted(f.nodes, "node").c_str());
  for (const onnx::OpUse& u : f.ops)
    if (u.supported) page.line("  %7lld  %s", static_cast<long long>(u.count), listed(u, f.ops).c_str());
  for (const onnx::OpUse& u : f.ops) {
    if (u.supported) continue;
    std::string nodes;
    for (const std::string& n : u.nodes) nodes += (nodes.empty() ? "" : ", ") + n;
    page.line("  UNSUPPORTED %s%s, %lld node%s (%s): %s; %s", u.domain.empty() ? "" : (u.domain + ".").c_str(),
              u.op.c_str(), static_cast<long long>(u.count), u.count == 1 ? "" : "s", nodes.c_str(), u.reason.c_str(),
              u.remedy.c_str());
  }
  if (f.lowered) {
    std::string dims;
    for (const auto& [name, value] : f.dims)
      dims += (dims.empty() ? " at " : ", ") + name + "=" + std::to_string(value);
    page.line("  parameters %lld, weights %s%s", static_cast<long long>(f.parameters),
              bytes_text(static_cast<double>(f.weight_bytes)).c_str(),
              f.file_bytes ? (", file " + bytes_text(static_cast<double>(f.file_bytes))).c_str() : "");
    page.line("  memory of a run%s: about %s (weights + %s of intermediate values; plus packed weights)", dims.c_str(),
              bytes_text(static_cast<double>(f.weight_bytes + f.arena_bytes)).c_str(),
              bytes_text(static_cast<double>(f.arena_bytes)).c_str());
    if (!f.lacks.empty()) page.line("  not here: %s; a build refuses it unless --no-verify", f.lacks.c_str());
    for (const std::string& line : f.device_memory)
      page.line("  of it on %s; plus workspaces of kernels", line.c_str());
    if (const build::BuildMemory& m = f.build_memory; m.peak() > 0)
      page.line("  memory of a build: about %s (%s while candidates are tried, %s while the engine is judged)%s",
                bytes_text(m.peak()).c_str(), bytes_text(m.trying).c_str(), bytes_text(m.judging).c_str(),
                m.first > m.peak() ? ("; of this machine's first about " + bytes_text(m.first)).c_str() : "");
    page.line(
        "  build: about %s for %s of %s or more, where this machine has built before; its first build tests each "
        "kernel "
        "too",
        f.build_seconds < 1 ? "a second" : format("%.0f s", f.build_seconds).c_str(),
        counted(f.candidates, "candidate").c_str(), counted(f.problems, "distinct problem").c_str());
    if (f.slow_steps)
      page.line("  slow: %lld of %s on the reference, since no kernel%s supports them",
                static_cast<long long>(f.slow_steps),
                build::all_steps_text(f.steps + f.body_steps, f.body_steps).c_str(),
                provider.empty() ? "" : (" of --provider " + provider).c_str());
    if (!f.slow_text.empty()) page.line("        %s", f.slow_text.c_str());
  }
  for (const std::string& n : f.notes) page.line("  note: %s", n.c_str());
}

Result<Outcome> inspect_model(const Arguments& arguments, const std::string& path) {
  PERI_TRY(check_is_for_engines(arguments, path));
  Progress progress(arguments.has("--quiet"));
  PERI_ASSIGN(const build::Request request, build_request(arguments, path, &progress));
  auto surveyed = build::survey(request);
  progress.clear();
  if (!surveyed.ok()) return std::move(surveyed).error();
  const build::Survey& f = *surveyed;
  const Page page(arguments);
  print_model(page, f, arguments.get("--provider"));
  if (arguments.has("--quiet"))
    for (const std::string& n : f.notes) say("note: " + n);
  Outcome out;
  out.json = build::survey_json(f);
  if (f.unsupported_kinds()) {
    out.code = 1;
    out.summary = path + " does not run yet: " + counted(f.unsupported_nodes(), "node") + " of " +
                  counted(f.unsupported_kinds(), "unsupported operator");
  } else {
    out.summary = path + (f.lowered ? " runs: " : " has only supported operators: ") + counted(f.nodes, "node");
    if (f.lowered)
      out.summary += ", about " + bytes_text(static_cast<double>(f.weight_bytes + f.arena_bytes)) + " of memory";
    if (!f.lacks.empty()) out.summary += ", which this machine does not have: " + f.lacks;
  }
  return out;
}

// ---- engines -------------------------------------------------------------------------------------------------------
std::string kernel_of(const plan::Step& s) {
  if (s.variants.empty()) return "";
  const std::string& p = s.variants[0].payload;
  const std::string head = p.substr(0, std::min(p.find('\n'), p.find(" {")));
  return head.starts_with("kernel ") ? head.substr(7) : s.executor;
}

// Intermediate values of one session at the sizes it is tuned for, on all devices; what only the data decides is not in
// it. Null: no such sizes.
std::optional<int64_t> arena_of(const plan::Program& p) {
  const auto all = plan::device_memory(p, {p.tuned_for.begin(), p.tuned_for.end()}, {});
  if (!all.ok()) return std::nullopt;
  int64_t out = 0;
  for (const plan::DeviceMemory& m : *all) out += m.arena;
  return out;
}

std::string engine_json(const std::string& path, const plan::LoadedEngine& e, int64_t in_bodies,
                        const std::map<std::string, int64_t>& kernels, const std::map<std::string, int64_t>& executors,
                        bool checked, const std::string& lacks) {
  const plan::Program& p = e.program;
  JsonWriter w;
  w.begin_object()
      .field("engine", path)
      .field("name", p.name)
      .field("builder", p.builder)
      .field("backend", p.backend)
      .field("precision", dtype_name(p.precision))
      .field("file_bytes", static_cast<uint64_t>(e.file->size()))
      .field("hash", hex64(plan::engine_hash(e.file->bytes())));
  if (const auto limit = plan::iterations_of(p); limit.ok() && *limit > 0) w.field("max_iterations", *limit);
  if (const std::string mark = build::interrupted_build(p); !mark.empty()) w.field("build", mark);
  plan::write_class_names(p, &w);
  compile::write_own_names(p, &w);
  if (const std::string chip = plan::chip_of(p); !chip.empty()) w.field("tuned_on", chip);
  for (const auto* ports : {&p.inputs, &p.outputs}) {
    w.key(ports == &p.inputs ? "inputs" : "outputs").begin_array();
    for (const plan::Port& port : *ports)
      w.begin_object()
          .field("name", port.name)
          .field("type", std::string(dtype_name(port.dtype)) + shape_text(port.shape))
          .end_object();
    w.end_array();
  }
  w.key("dims").begin_array();
  for (const std::string& d : p.dims) w.value(d);
  w.end_array().key("tuned_for").begin_object();
  for (const auto& [name, value] : p.tuned_for) w.field(name, value);
  for (const auto& [key, limits] : {std::pair{"at_least", &p.at_least}, std::pair{"at_most", &p.at_most}}) {
    w.end_object().key(key).begin_object();
    for (const auto& [name, value] : *limits) w.field(name, value);
  }
  w.end_object()
      .field("steps", static_cast<int64_t>(p.steps.size()))
      .field("steps_in_bodies", in_bodies)
      .field("buffers", static_cast<int64_t>(p.buffers.size()));
  w.key("executors").begin_object();
  for (const auto& [name, n] : executors) w.field(name, n);
  w.end_object().key("kernels").begin_object();
  for (const auto& [name, n] : kernels) w.field(name, n);
  w.end_object()
      .field("weights", static_cast<int64_t>(p.weights.size()))
      .field("weight_bytes", static_cast<uint64_t>(e.weight_bytes.size()));
  if (const auto arena = arena_of(p))
    w.field("arena_bytes", *arena);
  else
    w.key("arena_bytes").null();
  w.field("weights_checked", checked).field("runs_here", lacks.empty());
  if (!lacks.empty()) w.field("lacks", lacks);
  w.key("sections").begin_object();
  for (const plan::Section& s : p.sections) w.field(s.name, static_cast<int64_t>(s.bytes.size()));
  w.end_object().end_object();
  return w.take();
}

// The caller prints the engine's name before the error.
std::string without_file(Error e, const std::string& path) {
  if (e.file == path) e.file.clear();
  return e.text();
}

// Steps of a program and of its bodies, each under its kernel and its executor.
int64_t count_steps(const plan::Program& p, std::map<std::string, int64_t>* kernels,
                    std::map<std::string, int64_t>* executors) {
  int64_t out = std::ssize(p.steps);
  for (const plan::Step& s : p.steps) {
    ++(*kernels)[kernel_of(s)];
    ++(*executors)[s.executor];
    for (const auto& body : s.bodies) out += count_steps(*body, kernels, executors);
  }
  return out;
}

// Names of sizes in the outputs that only a run tells: "data.nonzero_0, data.trips_1".
std::string sizes_of_data(const plan::Program& p) {
  std::set<std::string> symbols;
  for (const plan::Port& port : p.outputs)
    for (const Dim& d : port.shape) d.collect_symbols(symbols);
  std::string out;
  for (const std::string& name : symbols)
    if (name.starts_with(kDataDim)) out += (out.empty() ? "" : ", ") + name;
  return out;
}

// Part of the page; where there is none, it is said all the same.
void note(const Arguments& arguments, const Page& page, const std::string& text) {
  if (arguments.has("--quiet")) say("note: " + text);
  page.line("  note: %s", text.c_str());
}

Result<Outcome> inspect_engine(const Arguments& arguments, const std::string& path) {
  static constexpr std::string_view kObeyed[] = {"--device", "--kernel"};
  PERI_TRY(check_engine_flags(arguments, kObeyed));
  PERI_ASSIGN(const plan::LoadedEngine e, plan::load_engine(path));
  if (arguments.has("--check")) PERI_TRY(plan::check_weights(e));
  auto here = build::load(path, build::run_options(0, {}, arguments.get("--device")));
  if (!here.ok() && here.error().kind != ErrorKind::kRefused) return std::move(here).error();
  const plan::Program& p = e.program;
  std::map<std::string, int64_t> kernels, executors;
  const int64_t inner = count_steps(p, &kernels, &executors) - std::ssize(p.steps);
  const Page page(arguments);
  page.line("%s: engine '%s' built by %s for %s, in %s, %s", path.c_str(), p.name.c_str(), p.builder.c_str(),
            p.backend.c_str(), std::string(dtype_name(p.precision)).c_str(),
            bytes_text(static_cast<double>(e.file->size())).c_str());
  page.line("  hash    %s", hex64(plan::engine_hash(e.file->bytes())).c_str());
  for (const plan::Port& port : p.inputs)
    page.line("  input   %s %s%s", in_columns(port.name, kNameColumns).c_str(),
              std::string(dtype_name(port.dtype)).c_str(), shape_text(port.shape).c_str());
  for (const plan::Port& port : p.outputs)
    page.line("  output  %s %s%s", in_columns(port.name, kNameColumns).c_str(),
              std::string(dtype_name(port.dtype)).c_str(), shape_text(port.shape).c_str());
  if (const std::string names = sizes_of_data(p); !names.empty())
    page.line("  sizes   that the data of a run decides: %s", names.c_str());
  for (const auto& [name, value] : p.tuned_for)
    page.line("  tuned   %s=%lld", name.c_str(), static_cast<long long>(value));
  for (const std::string& name : p.dims)
    if (const std::string limit = plan::limits_text(p, name); !limit.empty())
      page.line("  limit   %s: %s", name.c_str(), limit.c_str());
  if (const auto classes = plan::class_names_of(p); classes.ok())
    for (const auto& [output, names] : *classes)
      page.line("  classes of %s: %s", output.c_str(), first_of(names).c_str());
  if (const auto limit = plan::iterations_of(p); limit.ok() && *limit > 0)
    page.line("  limit   at most %lld iterations of a loop", static_cast<long long>(*limit));
  page.line("  %s, %s, %s (%s%s)", build::steps_text(std::ssize(p.steps), inner).c_str(),
            counted(std::ssize(p.buffers), "buffer").c_str(), counted(std::ssize(p.weights), "weight").c_str(),
            bytes_text(static_cast<double>(e.weight_bytes.size())).c_str(),
            arguments.has("--check") ? ", every hash fits" : "");
  if (const std::string chip = plan::chip_of(p); !chip.empty()) page.line("  tuned   on %s", chip.c_str());
  if (const auto arena = arena_of(p))
    page.line("  arena   %s of each session%s", bytes_text(static_cast<double>(*arena)).c_str(),
              p.tuned_for.empty() ? "" : ", at the size it is tuned for");
  for (const std::string& line : plan::memory_lines(p, {p.tuned_for.begin(), p.tuned_for.end()}))
    page.line("  memory   %s; plus workspaces of kernels", line.c_str());
  for (const std::string& text : compile::dims_notes(p)) note(arguments, page, text);
  if (const plan::Section* fixed = p.section(compile::kFixedSection)) {
    std::string values = fixed->bytes;
    std::replace(values.begin(), values.end(), '\n', ' ');
    page.line("  fixed   %s", values.c_str());
  }
  const std::string mark = build::interrupted_build(p);
  const std::string elsewhere = build::tuned_elsewhere(p, build::chip_here(p, ""));
  for (const std::string& text : {mark, build::slow_steps_text(p), elsewhere})
    if (!text.empty()) note(arguments, page, text);
  for (const auto& [name, n] : executors) page.line("  executor %-20s %s", name.c_str(), counted(n, "step").c_str());
  for (const auto& [name, n] : kernels) page.line("  kernel   %-20s %s", name.c_str(), counted(n, "step").c_str());
  for (const plan::Section& s : p.sections)
    page.line("  section  %-20s %s", s.name.c_str(), bytes_text(static_cast<double>(s.bytes.size())).c_str());
  Outcome out;
  out.json =
      engine_json(path, e, inner, kernels, executors, arguments.has("--check"), here.ok() ? "" : here.error().text());
  const std::string checked = arguments.has("--check") ? ", all weights intact" : "";
  const std::string marked = mark.empty() ? "" : "; " + mark;
  if (here.ok()) {
    out.summary = path + " runs here: " + build::steps_text(std::ssize(p.steps), inner) + checked + marked;
  } else {  // missing requirements of the program or machine
    out.code = 1;
    out.summary = path + " does not run here" + checked + ": " + without_file(here.error(), path) + marked;
  }
  return out;
}

// How many of an operator's samples, in three types, have a GPU kernel: "all", "5 of 12", or "".
std::string gpu_text(const ops::OpDef& op) {
  static const device::Target kGpu = {device::Kind::kCuda, "a GPU", {"sm_90"}, 132, {}, {}};
  const tune::Coverage c = op.view ? tune::Coverage{1, 1} : tune::coverage(op, "cuda", kGpu);
  return c.taken == 0 ? "" : c.taken == c.all ? "all" : format("%d of %d", c.taken, c.all);
}

// Every supported operator of ONNX: the schema versions that changed its supported form, its types, and whether it runs
// on a GPU.
Result<Outcome> list_operators(const Arguments& arguments) {
  std::map<std::string, const ops::OpDef*> operators;
  for (const ops::OpDef* op : ops::all())
    if (!op->onnx.empty())
      operators[(op->domain.empty() ? "" : std::string(op->domain) + ".") + std::string(op->onnx)] = op;
  const Page page(arguments);
  JsonWriter w;
  w.begin_object().key("operators").begin_array();
  for (const auto& [name, op] : operators) {
    std::string versions, types;
    w.begin_object().field("name", name).key("versions").begin_array();
    for (int v : op->versions) {
      w.value(v);
      versions += (versions.empty() ? "" : " ") + std::to_string(v);
    }
    w.end_array().key("types").begin_array();
    for (int t = 1; t < kDTypeCount && !op->inputs.empty(); ++t) {
      if (!ops::contains(op->inputs[0].types, static_cast<DType>(t))) continue;
      w.value(dtype_name(static_cast<DType>(t)));
      types += " " + std::string(dtype_name(static_cast<DType>(t)));
    }
    const std::string gpu = gpu_text(*op);
    w.end_array().field("gpu", gpu).end_object();
    page.line("%-28s %-28s %-10s%s", name.c_str(), versions.c_str(), gpu.c_str(), types.c_str());
  }
  w.end_array().end_object();
  Outcome out;
  out.json = w.take();
  out.summary = counted(std::ssize(operators), "operator");
  return out;
}

Result<Outcome> run(const Arguments& arguments) {
  if (arguments.has("--operators")) {
    if (!arguments.positional.empty()) return usage("--operators lists all there are: it takes no model");
    if (arguments.has("--check")) return usage("--check is for engines, and --operators takes none");
    for (const Flag& f : build_flags())
      if (arguments.has(f.name))
        return usage("%s is for models, and --operators takes none", arguments.spelled(f.name).c_str())
            .advise("leave it out");
    return list_operators(arguments);
  }
  if (arguments.positional.empty())
    return usage("peri inspect needs MODEL, ENGINE or --operators").advise("see: peri inspect --help");
  const std::string& path = arguments.positional[0];
  return build::is_engine(path) ? inspect_engine(arguments, path) : inspect_model(arguments, path);
}
}  // namespace

extern const Entry inspect_entry;
const Entry inspect_entry{{
    .name = "inspect",
    .summary = "show a model's inputs, operators, unsupported nodes and cost estimates, or what an engine holds",
    .positional = "[MODEL|ENGINE]",
    .min_positional = 0,
    .max_positional = 1,
    .flags = build_flags({{"--operators", "", "",
                           "list the supported operators with their versions, the types of their first input, and how "
                           "many of their samples run on a GPU"},
                          {"--check", "", "", "engines: recompute the hash of every weight"}}),
    .details = "The flags of a build say which one is estimated: nothing is built, timed or cached here.\n\nExit code "
               "1 when a node is unsupported, all of which are listed, or an engine does not run "
               "here.\n\nexample:\n  peri inspect "
               "models/digits_cnn.onnx --json -",
    .run = run,
}};

}  // namespace peri::cli
