// peri doctor: describes this machine, its sustained rates, the libraries in use, and interference.
#include "base/version.hpp"
#include "build/checkup.hpp"
#include "cli/console/model.hpp"
#include "cli/console/nvidia.hpp"
#include "cli/console/page.hpp"

namespace peri::cli {
namespace {

void show_machine(const Page& page, const build::Checkup& c) {
  const build::MachineFacts& m = c.machine;
  std::string isas;
  for (const std::string& i : m.target.isas) isas += (isas.empty() ? "" : ", ") + i;
  page.line("peri      %s", std::string(version()).c_str());
  page.line("CPU       %s, %d of %d usable, %s", build::cpu_name(m).c_str(), c.limits.usable(), c.limits.online,
            isas.empty() ? "no AVX2" : isas.c_str());
  for (const auto& [name, bytes] : m.target.caches)
    page.line("cache     %-16s %s", name.c_str(), bytes_text(static_cast<double>(bytes)).c_str());
  if (m.memory.total_bytes > 0)
    page.line("memory    %s, %s available", bytes_text(static_cast<double>(m.memory.total_bytes)).c_str(),
              bytes_text(static_cast<double>(m.memory.available_bytes)).c_str());
  else
    page.line("memory    not known: /proc/meminfo is not seen here");
  for (const std::string& l : m.target.libraries) page.line("library   %s", l.c_str());
}

void show_rates(const Page& page, const build::Checkup& c) {
  page.line("ceiling   %d thread%s: %.0f GFLOP/s float32 at %.2f GHz (%s)", c.ceilings.threads,
            c.ceilings.threads == 1 ? "" : "s", c.ceilings.gflops(false), c.ceilings.clock_ghz,
            c.ceilings.clock_from.c_str());
  for (const bench::Peaks* p : {&c.one, &c.all}) {
    if (p == &c.all && c.threads == 1) break;
    page.line("peak      %d thread%s: %.0f GFLOP/s float32 multiply-adds", p->threads, p->threads == 1 ? "" : "s",
              p->fma_gflops);
    page.line("          %.0f GOP/s multiply-adds of bytes", p->byte_gops);
    for (size_t k = 0; k < p->copy_gbs.size(); ++k)
      page.line("          working set of %-10s copied at %.1f GB/s, read at %.1f GB/s",
                bytes_text(static_cast<double>(p->copy_gbs[k].first)).c_str(), p->copy_gbs[k].second,
                p->read_gbs[k].second);
  }
}

void show_kernels(const Page& page, JsonWriter& w) {
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
  w.end_array();
}

// One line each, and an array.
void show_lines(const Page& page, JsonWriter& w, const char* key, const char* label,
                const std::vector<std::string>& lines) {
  w.key(key).begin_array();
  for (const std::string& line : lines) {
    page.line("%s%s", label, line.c_str());
    w.value(line);
  }
  w.end_array();
}

Result<Outcome> run(const Arguments& arguments) {
  PERI_ASSIGN(const int threads, thread_count(arguments));
  Progress progress(arguments.has("--quiet"));
  progress.show(0, 0, "measuring what this machine sustains, two seconds");
  const build::Checkup c = build::check_up(threads);
  progress.clear();
  const Page page(arguments);
  show_machine(page, c);
  show_rates(page, c);
  JsonWriter w;
  w.begin_object().field("peri", std::string(version()));
  build::write_checkup(w, c);
  w.key("nvidia");
  show_nvidia(page, &w);
  show_kernels(page, w);
  const std::vector<std::string> in_the_way = c.in_the_way();
  show_lines(page, w, "in_the_way", "in the way: ", in_the_way);
  show_lines(page, w, "advice", "advice    ", c.advice());
  if (in_the_way.empty()) page.line("nothing is in the way");
  w.end_object();
  Outcome out;
  out.json = w.take();
  out.summary = format("%s, %d thread%s, %.0f GFLOP/s, %zu kernels", build::cpu_name(c.machine).c_str(), c.threads,
                       c.threads == 1 ? "" : "s", c.all.fma_gflops, kernels::entries().size());
  if (!in_the_way.empty())
    out.summary += format("; %zu thing%s in the way", in_the_way.size(), in_the_way.size() == 1 ? "" : "s");
  return out;
}
}  // namespace

extern const Entry doctor_entry;
const Entry doctor_entry{{
    .name = "doctor",
    .summary = "show the hardware, its sustained rates, the kernels for it, and what disturbs measurements",
    .positional = "",
    .min_positional = 0,
    .max_positional = 0,
    .flags = {{"--threads", "", "N",
               "threads to measure besides one, at most the CPUs this process may use (default)"}},
    .details = "example:\n  peri doctor --json -",
    .run = run,
}};

}  // namespace peri::cli
