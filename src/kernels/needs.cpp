// Texts of what a run needs.
#include "kernels/needs.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "base/json.hpp"
#include "base/plural.hpp"

namespace peri::kernels {

namespace {
constexpr size_t kPhasesShown = 16;  // a cell has one for each step of its sequence

std::string bytes_text(size_t bytes) {
  if (bytes < 1024) return counted(static_cast<int64_t>(bytes), "byte");
  if (bytes < (size_t{1} << 20)) return format("%.1f KiB", static_cast<double>(bytes) / 1024);
  return mib_text(static_cast<int64_t>(bytes));
}

std::string tasks_text(const std::vector<int64_t>& tasks) {
  int64_t all = 0;
  for (const int64_t n : tasks) all += n;
  const std::string of = counted(all, "task");
  return tasks.size() == 1 ? of : counted(std::ssize(tasks), "phase") + " of " + of + " in all";
}

std::string launches_text(const std::vector<Grid>& launches) {
  std::string out = counted(std::ssize(launches), "launch") + " of ";
  for (size_t k = 0; k < launches.size(); ++k) {
    const Grid& g = launches[k];
    if (k > 0) out += k + 1 == launches.size() ? " and " : ", ";
    out += counted(g.blocks[0] * g.blocks[1] * g.blocks[2], "block") + " by " + counted(g.threads, "thread");
    if (g.cluster > 1) out += format(" in clusters of %lld", static_cast<long long>(g.cluster));
    if (g.shared_bytes > 0)
      out += ", each with " + bytes_text(static_cast<size_t>(g.shared_bytes)) + " of shared memory";
  }
  return out;
}
}  // namespace

std::string needs_text(const Needs& needs) {
  std::string out;
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : "; ") + part; };
  if (!needs.tasks.empty()) add(tasks_text(needs.tasks));
  if (!needs.launches.empty()) add(launches_text(needs.launches));
  if (needs.workspace > 0) add(bytes_text(needs.workspace) + " of workspace");
  if (needs.scratch > 0) add(bytes_text(needs.scratch) + " for each thread");
  return out.empty() ? "nothing" : out;
}

void write_needs(JsonWriter& w, const Needs& needs) {
  w.begin_object()
      .field("workspace_bytes", static_cast<int64_t>(needs.workspace))
      .field("scratch_bytes", static_cast<int64_t>(needs.scratch))
      .field("phases", std::ssize(needs.tasks))
      .key("tasks")
      .begin_array();
  for (size_t k = 0; k < std::min(needs.tasks.size(), kPhasesShown); ++k) w.value(needs.tasks[k]);
  w.end_array().key("launches").begin_array();
  for (const Grid& g : needs.launches) {
    w.begin_object().field("entry", g.entry).key("blocks").begin_array();
    for (const int64_t n : g.blocks) w.value(n);
    w.end_array()
        .field("threads", g.threads)
        .field("shared_bytes", g.shared_bytes)
        .field("cluster", g.cluster)
        .end_object();
  }
  w.end_array().end_object();
}

}  // namespace peri::kernels
