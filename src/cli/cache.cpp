// peri cache: where measured times, packed weights and the engines of servers are kept, how many there are, and how to
// forget them.
#include "tune/cache.hpp"
#include "base/json.hpp"
#include "base/knobs.hpp"
#include "base/plural.hpp"
#include "build/kept_engine.hpp"
#include "cli/console/page.hpp"
#include "exec/weights/packed_files.hpp"

namespace peri::cli {
namespace {

Result<Outcome> run(const Arguments& arguments) {
  const std::string what = arguments.positional.empty() ? "list" : arguments.positional[0];
  const std::string folder = cache_folder();
  const Page page(arguments);
  Outcome out;
  JsonWriter w;
  w.begin_object().field("folder", folder);
  if (what != "path" && what != "list" && what != "clear")
    return usage("peri cache has no '%s'", what.c_str()).expecting("path, list or clear");
  if (what == "path") page.line("%s", folder.c_str());
  if (folder.empty()) {  // and no file below "/" is looked at or deleted
    out.summary = "no cache: set PERI_CACHE, XDG_CACHE_HOME or HOME";
  } else if (what == "path") {
    out.summary = folder;
  } else if (what == "list") {
    PERI_ASSIGN(const tune::CacheFacts f, tune::cache_facts(folder));
    w.field("file", f.file)
        .field("exists", f.exists)
        .field("bytes", f.bytes)
        .field("problems", f.problems)
        .field("timings", f.rows)
        .key("machines")
        .begin_object();
    for (const auto& [machine, rows] : f.machines) {
      page.line("%8lld timings  %s", static_cast<long long>(rows), machine.c_str());
      w.field(machine, rows);
    }
    w.end_object();
    const exec::PackedFacts packed = exec::packed_facts(folder);
    w.key("packed").begin_object().field("files", packed.files).field("bytes", packed.bytes).end_object();
    page.line("%8lld packed weights, %s", static_cast<long long>(packed.files),
              bytes_text(static_cast<double>(packed.bytes)).c_str());
    const build::KeptFacts kept = build::kept_facts(folder);
    w.key("engines").begin_object().field("files", kept.engines).field("bytes", kept.bytes).end_object();
    page.line("%8lld engine%s that peri serve built, %s", static_cast<long long>(kept.engines),
              kept.engines == 1 ? "" : "s", bytes_text(static_cast<double>(kept.bytes)).c_str());
    out.summary =
        f.exists
            ? format("%s, %s: %s of %s", f.file.c_str(), bytes_text(static_cast<double>(f.bytes)).c_str(),
                     counted(f.rows, "timing").c_str(), counted(f.problems, "problem").c_str())
            : std::string(packed.files + kept.engines ? "no timings: " : "empty: ") + f.file + " does not exist yet";
  } else {
    PERI_ASSIGN(int64_t bytes, tune::clear_cache(folder));
    PERI_ASSIGN(const int64_t packed, exec::clear_packed(folder));
    PERI_ASSIGN(const int64_t engines, build::clear_kept(folder));
    bytes += packed + engines;
    w.field("freed_bytes", bytes);
    out.summary = bytes ? bytes_text(static_cast<double>(bytes)) + " deleted" : "nothing to delete";
  }
  w.end_object();
  out.json = w.take();
  return out;
}
}  // namespace

extern const Entry cache_entry;
const Entry cache_entry{{
    .name = "cache",
    .summary = "show or clear the cache of measured times, packed weights and the engines that peri serve built",
    .positional = "[path|list|clear]",
    .min_positional = 0,
    .max_positional = 1,
    .details = "The folder is $PERI_CACHE, else $XDG_CACHE_HOME/peri, else ~/.cache/peri; an empty PERI_CACHE means "
               "none. Absent or read-only\n"
               "is allowed: builds go on and say so.\n\nexample:\n  peri cache list --json -",
    .run = run,
}};

}  // namespace peri::cli
