// Order of the passes and their wrapper.
#include "passes/pipeline.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/fault.hpp"
#include "base/file.hpp"
#include "base/file_uses.hpp"
#include "ir/bodies.hpp"

namespace peri::passes {

std::span<const std::string_view> order() {
  static constexpr std::string_view kOrder[] = {
      "eliminate_identity",    // names go, uses remain
      "move_quantization",     // what only moves numbers moves their bytes
      "fuse_quantized",        // products of dequantised bytes are those of the bytes
      "fold_constants",        // shape arithmetic becomes sizes, constant expressions become constants
      "fold_branches",         // known conditions; constants of bodies are theirs
      "eliminate_duplicates",  // equal nodes become one
      "resolve_ranges",        // index arithmetic of masks
      "simplify",              // what changes nothing goes
      "open_transforms",       // short transforms are products, those of frames convolutions
      "open_losses",           // cross entropies are likelihoods of a log softmax
      "open_attention",        // attention as a node of its own
      "open_products",         // sums over named axes are matrix products
      "fold_constants",        // what that made constant
      "fold_branches",
      "fuse_softmax",  // what exporters take apart is put together
      "fuse_layer_norm",
      "fold_batch_norm",  // scales and shifts of channels are in the weights
      "fold_padding",
      "split_convolutions",  // gates: parts of channels without copies
      "write_pads",
      "slice_volumes",      // volumes are images of many depths
      "lift_windows",       // signals are images of one row
      "open_transposed",    // weights that come with the run
      "open_upsampling",    // a few channels of windows that do not overlap
      "gemm_to_matmul",     // linear layers without reshapes around them
      "sink_transposes",    // transposes meet and cancel; chains of reshapes are one
      "split_projections",  // packed q, k, v without copies
      "merge_slices",       // one copy for a window along several axes
      "fuse_attention",     // softmax(q kT + mask) v with its head splits is one node
      "sink_transposes",
      "fuse_gelu",  // activations that fit into epilogues
      "fuse_swish",
      "fuse_hard_swish",
      "open_quantization",  // element by element, bytes are part of a chain
      "tabulate_bytes",     // what a byte alone decides is looked up
      "part_operands",      // as many as a kernel reads
      "simplify",
      "eliminate_duplicates",
      "set_precision",  // what is computed and stored in which type
  };
  return kOrder;
}

const Pass* find(std::string_view name) {
  for (const Entry* e : entries())
    if (e->pass.name == name) return &e->pass;
  return nullptr;
}

namespace {
// Bodies first: their types are those of the last inference of the graph around them. They run on the host.
Result<int64_t> rewrite(const Pass& pass, ir::Graph& graph, const Precision& precision) {
  Precision of_bodies = precision;
  of_bodies.values = DType::kF32;
  int64_t rewrites = 0;
  for (const ir::Node* n : graph.nodes)
    for (const auto& [key, body] : ir::bodies_of(*n)) {
      PERI_ASSIGN(const int64_t inside, rewrite(pass, *body, of_bodies));
      rewrites += inside;
      if (inside == 0) continue;
      body->erase_dead();
      PERI_TRY(ops::infer_graph(*body));
      PERI_TRY(ir::verify_structure(*body));
    }
  PERI_ASSIGN(const int64_t here, pass.run_at ? pass.run_at(graph, precision) : pass.run(graph));
  return rewrites + here;
}
}  // namespace

Result<PassReport> run_pass(const Pass& pass, ir::Graph& graph, const Precision& precision) {
  PassReport report;
  report.name = pass.name;
  report.nodes_before = graph.nodes.size();
  const int64_t start = now_ns();
  auto rewrites = contained([&] { return rewrite(pass, graph, precision); });
  if (!rewrites.ok()) return std::move(rewrites).error().at_node("pass " + report.name);
  report.rewrites = *rewrites;
  if (report.rewrites > 0) {
    graph.erase_dead();
    auto check = [&]() -> Status {
      PERI_TRY(ops::infer_graph(graph));
      return ir::verify_structure(graph);
    };
    Status sound = contained(check);
    if (!sound.ok())
      return internal_error("pass '%s' broke the graph: %s", report.name.c_str(), sound.error().text().c_str())
          .advise("build with --disable-pass " + report.name + " and report this");
  }
  report.nodes_after = graph.nodes.size();
  report.ms = seconds_since(start) * 1e3;
  return report;
}

namespace {
Status dump(const std::string& path, const std::string& graph) {
  static constexpr FileKind kDump{"a dumped graph", [](std::string_view head) { return head.starts_with("graph "); }};
  if (Status free = check_replaces(path, kDump, false); !free.ok()) {
    Error taken = std::move(free).error();
    taken.remedy = "give another folder";  // nothing is forced here
    return taken;
  }
  return write_file_atomic(path, graph);
}
}  // namespace

Status check_names(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (find(name)) continue;
    std::string known;
    for (const Entry* e : entries()) known += (known.empty() ? "" : ", ") + std::string(e->pass.name);
    return usage("no pass is named '%s'", name.c_str()).advise("the passes are: " + known);
  }
  return Ok{};
}

Result<std::vector<PassReport>> run_pipeline(ir::Graph& graph, const PipelineOptions& options) {
  PERI_TRY(check_names(options.disabled));
  PERI_TRY(ops::infer_graph(graph));
  PERI_TRY(ir::verify_structure(graph));
  std::vector<PassReport> reports;
  for (std::string_view name : order()) {
    const Pass* pass = find(name);
    if (!pass) continue;
    if (std::find(options.disabled.begin(), options.disabled.end(), name) != options.disabled.end()) {
      reports.push_back({std::string(name), 0, 0, graph.nodes.size(), graph.nodes.size(), true});
      continue;
    }
    if (options.stop && options.stop())
      return Error(ErrorKind::kCancelled, "interrupted while the graph was rewritten");
    const std::string before = options.dump_dir.empty() ? "" : ir::print(graph);
    PERI_ASSIGN(PassReport report, run_pass(*pass, graph, options.precision));
    if (!options.dump_dir.empty() && report.rewrites > 0) {
      const std::string stem = options.dump_dir + "/" + format("%02zu_", reports.size()) + report.name;
      PERI_TRY(dump(stem + ".before.ir", before));
      PERI_TRY(dump(stem + ".after.ir", ir::print(graph)));
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace peri::passes
