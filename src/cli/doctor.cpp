// peri doctor: what this machine is, what it sustains, what this build can use of it, and what to do about the rest.
#include "base/version.hpp"
#include "bench/ceilings.hpp"
#include "bench/peaks.hpp"
#include "build/machine.hpp"
#include "cli/console/model.hpp"
#include "cli/console/nvidia.hpp"
#include "cli/console/page.hpp"

namespace peri::cli {
namespace {

std::vector<std::string> advice(const build::MachineFacts& m, const bench::Peaks& one, const bench::Peaks& all) {
  std::vector<std::string> out;
  if (m.target.isas.empty())
    out.emplace_back("this CPU has no AVX2 and FMA: every step runs on the slow reference; use a CPU of 2013 or later");
  else if (m.target.isas.size() == 1)
    out.emplace_back("AVX2 kernels are used; a CPU with AVX-512 is about twice as fast in matrix products");
  if (m.target.threads > 1 && all.fma_gflops < 1.3 * one.fma_gflops)
    out.emplace_back(
        format("%d CPUs give only %.1f times the arithmetic of one: they share a core, or something else is running",
               m.target.threads, all.fma_gflops / std::max(1e-9, one.fma_gflops)));
  if (m.memory.available_bytes > 0 && m.memory.available_bytes < (int64_t{1} << 30))
    out.push_back("less than 1 GiB of memory is free: large models will not load");
  if (m.target.libraries.empty())
    out.emplace_back("no vendor library is linked: only kernels of provider peri compete");
  if (out.empty()) out.emplace_back("nothing stands in the way");
  return out;
}

Result<Outcome> run(const Arguments& arguments) {
  PERI_ASSIGN(const int threads, thread_count(arguments));
  const build::MachineFacts m = build::machine_facts();
  const bench::Ceilings ceilings = bench::machine_ceilings(threads);
  const bench::Peaks one = bench::measure_peaks(1, 1.0);
  const bench::Peaks all = threads > 1 ? bench::measure_peaks(threads, 1.0) : one;
  const Page page(arguments);
  std::string isas;
  for (const std::string& i : m.target.isas) isas += (isas.empty() ? "" : ", ") + i;
  page.line("peri      %s", std::string(version()).c_str());
  page.line("CPU       %s, %d usable, %s", build::cpu_name(m).c_str(), m.target.threads,
            isas.empty() ? "no AVX2" : isas.c_str());
  for (const auto& [name, bytes] : m.target.caches)
    page.line("cache     %-16s %s", name.c_str(), bytes_text(static_cast<double>(bytes)).c_str());
  page.line("memory    %s, %s available", bytes_text(static_cast<double>(m.memory.total_bytes)).c_str(),
            bytes_text(static_cast<double>(m.memory.available_bytes)).c_str());
  for (const std::string& l : m.target.libraries) page.line("library   %s", l.c_str());
  page.line("ceiling   %d thread%s: %.0f GFLOP/s float32 at %.2f GHz (%s)", threads, threads == 1 ? "" : "s",
            ceilings.gflops(false), ceilings.clock_ghz, ceilings.clock_from.c_str());
  for (const bench::Peaks* p : {&one, &all}) {
    if (p == &all && threads == 1) break;
    page.line("peak      %d thread%s: %.0f GFLOP/s float32 multiply-adds", p->threads, p->threads == 1 ? "" : "s",
              p->fma_gflops);
    for (size_t k = 0; k < p->copy_gbs.size(); ++k)
      page.line("          working set of %-10s copied at %.1f GB/s, read at %.1f GB/s",
                bytes_text(static_cast<double>(p->copy_gbs[k].first)).c_str(), p->copy_gbs[k].second,
                p->read_gbs[k].second);
  }
  JsonWriter w;
  w.begin_object().field("peri", std::string(version())).key("machine");
  build::write_machine(w, m);
  w.key("target");
  device::write_target(w, m.target);
  w.key("ceilings");
  bench::write_ceilings(w, ceilings);
  w.key("peaks_one_thread");
  bench::write_peaks(w, one);
  w.key("peaks");
  bench::write_peaks(w, all);
  w.key("nvidia");
  show_nvidia(page, &w);
  w.key("kernels").begin_array();
  for (const kernels::Entry* e : kernels::entries()) {
    const kernels::Kernel& k = e->kernel;
    page.line("kernel    %-10s %-22s %s", std::string(k.provider).c_str(),
              (std::string(k.name) + "@" + std::to_string(k.version)).c_str(), std::string(k.takes).c_str());
    w.begin_object()
        .field("name", k.name)
        .field("version", k.version)
        .field("provider", k.provider)
        .field("executor", k.executor)
        .field("takes", k.takes)
        .end_object();
  }
  w.end_array().key("advice").begin_array();
  for (const std::string& a : advice(m, one, all)) {
    page.line("advice    %s", a.c_str());
    w.value(a);
  }
  w.end_array().end_object();
  Outcome out;
  out.json = w.take();
  out.summary = format("%s, %d threads, %.0f GFLOP/s, %zu kernels", build::cpu_name(m).c_str(), threads, all.fma_gflops,
                       kernels::entries().size());
  return out;
}
}  // namespace

extern const Entry doctor_entry;
const Entry doctor_entry{{
    .name = "doctor",
    .summary = "what this machine is and sustains, and what this build can use of it",
    .positional = "",
    .min_positional = 0,
    .max_positional = 0,
    .flags = {{"--threads", "", "N", "threads to measure besides one (default: the CPUs this process may use)"}},
    .details = "example:\n  peri doctor --json -",
    .run = run,
}};

}  // namespace peri::cli
