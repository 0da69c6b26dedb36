// peri cache: shows where measured times, packed weights, engines and machine code are stored, how many there are, and
// deletes them.
#include "tune/cache.hpp"
#include "base/json.hpp"
#include "base/kept_files.hpp"
#include "base/knobs.hpp"
#include "base/plural.hpp"
#include "cli/console/page.hpp"

namespace peri::cli {
namespace {

// Lists the files of a kind. Returns their number.
int64_t list_kept(const KeptKind& kind, const std::string& folder, const Page& page, JsonWriter* w) {
  const KeptFacts f = kept_facts(kind, folder);
  const auto limit = static_cast<int64_t>(kept_limit_bytes(kind));
  w->key(kind.folder).begin_object().field("files", f.files).field("bytes", f.bytes);
  w->field("in_use", f.held).field("most_bytes", limit).end_object();
  page.line("%8lld %s, %s of at most %s%s", static_cast<long long>(f.files), std::string(kind.words).c_str(),
            bytes_text(static_cast<double>(f.bytes)).c_str(), bytes_text(static_cast<double>(limit)).c_str(),
            f.held ? format(", %lld in use", static_cast<long long>(f.held)).c_str() : "");
  return f.files;
}

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
  if (folder.empty()) {  // the file system's root is neither listed nor deleted from
    out.summary = knob(Knob::kCache) ? "no cache: PERI_CACHE is empty, which means none: unset it, or name a folder"
                                     : "no cache: set PERI_CACHE, XDG_CACHE_HOME or HOME";
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
    int64_t kept = 0;
    for (const KeptKind* kind : kept_kinds()) kept += list_kept(*kind, folder, page, &w);
    out.summary = f.exists
                      ? format("%s, %s: %s of %s", f.file.c_str(), bytes_text(static_cast<double>(f.bytes)).c_str(),
                               counted(f.rows, "timing").c_str(), counted(f.problems, "problem").c_str())
                      : (kept ? "no timings: " : "empty: ") + f.file + " does not exist yet";
  } else {
    PERI_ASSIGN(int64_t bytes, tune::clear_cache(folder));
    int64_t held = 0;
    for (const KeptKind* kind : kept_kinds()) {
      PERI_ASSIGN(const int64_t went, clear_kept(*kind, folder));
      bytes += went;
      held += kept_facts(*kind, folder).held;
    }
    w.field("freed_bytes", bytes).field("files_in_use", held);
    out.summary = bytes ? bytes_text(static_cast<double>(bytes)) + " deleted" : "nothing to delete";
    if (held) out.summary += ", " + counted(held, "file") + " in use left";
  }
  w.end_object();
  out.json = w.take();
  return out;
}
}  // namespace

extern const Entry cache_entry;
const Entry cache_entry{{
    .name = "cache",
    .summary = "show or clear the cache of measured times, packed weights, engines and code",
    .positional = "[path|list|clear]",
    .min_positional = 0,
    .max_positional = 1,
    .details = "The folder is $PERI_CACHE, else $XDG_CACHE_HOME/peri, else ~/.cache/peri; an empty PERI_CACHE means "
               "none. Absent or read-only\n"
               "is allowed: builds go on and say so. Of packed weights, of engines that peri serve built and of "
               "machine code for "
               "GPUs the least\n"
               "recently used are deleted first, at limits that PERI_PACKED_CACHE_MIB, PERI_ENGINE_CACHE_MIB and "
               "PERI_CODE_CACHE_MIB set;\n"
               "what a running server has open stays. A build that runs during a 'clear' keeps what it measured: it "
               "writes it to "
               "a new file.\n\nexample:\n  peri cache list --json -",
    .run = run,
}};

}  // namespace peri::cli
