// A result is valid for these processors and this number of threads, which the file names.
#include "cli/console/tuning.hpp"

#include "base/thread_pool.hpp"
#include "bench/measure.hpp"
#include "build/machine.hpp"
#include "cli/console/model.hpp"
#include "cli/console/terminal.hpp"

namespace peri::cli {

std::vector<Flag> tuning_flags() {
  return {{"--tune", "", "p99=20ms",
           "find the batch size and delay with the highest rate that meets this objective; stored beside the model"},
          {"--tune-secs", "", "S", "with --tune: seconds for each of up to 18 measurements (default 0.7)"}};
}

Result<serve::Settle> tuner_of(const Arguments& arguments, std::function<void(const std::string&)> say) {
  serve::TunerOptions o;
  if (arguments.has("--tune")) {
    PERI_ASSIGN(o.objective, serve::parse_objective(arguments.get("--tune")));
  } else if (arguments.has("--tune-secs")) {
    return usage("--tune-secs needs --tune");
  }
  PERI_ASSIGN(o.seconds, arguments.real("--tune-secs", 0.05, 600, o.seconds));
  PERI_ASSIGN(const int threads, thread_count(arguments));
  o.machine = build::cpu_name(build::machine_facts()) + ", " + std::to_string(threads > 0 ? threads : usable_cpus()) +
              " threads";
  o.time_runs = [](FunctionRef<Status()> run, const std::function<bool()>& stop) -> Result<int64_t> {
    constexpr int64_t kRuns = 5;
    const bench::Schedule few{.warm_up_seconds = 0, .seconds = 0, .min_samples = kRuns, .max_samples = kRuns};
    PERI_ASSIGN(const std::vector<double> ms, bench::time_runs(few, run, stop));
    return static_cast<int64_t>(stats::median(ms) * 1e6);
  };
  o.stop = interrupted;
  o.say = std::move(say);
  const auto tuner = std::make_shared<const serve::Tuner>(std::move(o));
  return serve::Settle([tuner](const std::string& folder, const serve::LoadOrder& order, const serve::Loaded& loaded,
                               serve::ModelOptions* options) { tuner->settle(folder, order, loaded, options); });
}

}  // namespace peri::cli
