// A restarted server counts from zero: a count below the previous one is used as it is.
#include "cli/console/top_page.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "base/plural.hpp"
#include "base/utf8.hpp"
#include "cli/console/columns.hpp"
#include "cli/console/page.hpp"

namespace peri::cli {
namespace {

constexpr size_t kMinNameColumns = 18, kNumberColumns = 42;  // with these a row fits 60 columns

using Counts = std::map<std::string, int64_t>;

struct ModelRow {
  std::string name, version;
  int64_t pending = 0, running = 0, success = 0, rows = 0, executions = 0, memory = 0;
  Counts batches, cuts, failures;
  Counts sequences, sequences_over;  // current; ended ones by cause
  std::vector<std::pair<double, int64_t>> times_us;
};

Result<Counts> counts_of(const Json& holder, std::string_view key, const Counts* before) {
  Counts out;
  PERI_ASSIGN(const auto* members, holder.get_object(key));
  for (const Json::Member& m : *members) {
    PERI_ASSIGN(out[m.key], m.value.as_int());
    if (before)
      if (const auto it = before->find(m.key); it != before->end()) out[m.key] -= it->second;
  }
  return out;
}

Result<ModelRow> row_of(const Json& m, const ModelRow* before) {
  ModelRow out;
  PERI_ASSIGN(const std::string_view name, m.get_string("name"));
  PERI_ASSIGN(const std::string_view version, m.get_string("version"));
  out.name = name;
  out.version = version;
  PERI_ASSIGN(out.pending, m.get_int("pending"));
  PERI_ASSIGN(const int64_t open, m.get_int("open"));
  out.running = std::max<int64_t>(open - out.pending, 0);
  PERI_ASSIGN(out.success, m.get_int("success"));
  PERI_ASSIGN(out.rows, m.get_int("rows"));
  if (const auto memory = m.get_int("memory_bytes"); memory.ok()) out.memory = *memory;  // absent from older servers
  PERI_ASSIGN(out.executions, m.get_int("executions"));
  PERI_ASSIGN(out.batches, counts_of(m, "batches", before ? &before->batches : nullptr));
  PERI_ASSIGN(out.cuts, counts_of(m, "cuts", before ? &before->cuts : nullptr));
  PERI_ASSIGN(out.failures, counts_of(m, "failures", before ? &before->failures : nullptr));
  if (const Json* sequences = m.find("sequences")) {
    for (const char* key : {"active", "backlog", "slots", "state_bytes"}) {
      PERI_ASSIGN(out.sequences[key], sequences->get_int(key));
    }
    for (const char* key : {"begun", "ended", "idle", "failed"}) {
      PERI_ASSIGN(out.sequences_over[key], sequences->get_int(key));
      if (before) out.sequences_over[key] -= before->sequences_over.count(key) ? before->sequences_over.at(key) : 0;
    }
  }
  PERI_ASSIGN(const auto* times, m.get_array("request_us"));
  std::map<double, int64_t> old;
  if (before) old.insert(before->times_us.begin(), before->times_us.end());
  for (const Json& pair : *times) {
    if (pair.items().size() != 2) return invalid("a histogram without pairs");
    PERI_ASSIGN(const double us, pair.items()[0].as_double());
    PERI_ASSIGN(const int64_t n, pair.items()[1].as_int());
    const auto it = old.find(us);
    out.times_us.emplace_back(us, n - (it == old.end() ? 0 : it->second));
  }
  if (before) {
    out.success -= before->success;
    out.rows -= before->rows;
    out.executions -= before->executions;
  }
  return out;
}

// None where no request was answered.
std::optional<double> quantile_ms(const ModelRow& m, double q) {
  int64_t all = 0, seen = 0;
  for (const auto& [us, n] : m.times_us) all += n;
  for (const auto& [us, n] : m.times_us) {
    seen += n;
    if (n > 0 && static_cast<double>(seen) >= q * static_cast<double>(all)) return us / 1000;
  }
  return std::nullopt;
}

std::optional<double> rows_of_batch(const ModelRow& m) {
  if (m.executions <= 0) return std::nullopt;
  return static_cast<double>(m.rows) / static_cast<double>(m.executions);
}

std::string known(std::optional<double> v, const char* as) { return v ? format(as, *v) : "-"; }

struct Process {
  std::string name;
  int64_t pid = 0, resident = 0, peak = 0;
  double cpu_s = 0;  // since the look before
};

struct Look {
  double seconds = 0, up_s = 0, cpu = 0;
  int64_t open = 0, resident = 0, peak = 0, machine = 0;
  std::string state;
  std::vector<Process> processes;
  std::vector<ModelRow> models;
  std::vector<std::string> others;  // "name: LOADING: reason"
};

Result<std::vector<std::string>> others_of(const Json& now) {
  std::vector<std::string> out;
  PERI_ASSIGN(const auto* others, now.get_array("not_served"));
  for (const Json& m : *others) {
    PERI_ASSIGN(const std::string_view name, m.get_string("name"));
    PERI_ASSIGN(const std::string_view state, m.get_string("state"));
    PERI_ASSIGN(const std::string_view reason, m.get_string("reason"));
    out.push_back(std::string(name) + ": " + std::string(state) + ": " + std::string(reason));
  }
  return out;
}

Result<std::vector<Process>> processes_of(const Json& now, const Json* before) {
  std::vector<Process> out, then;
  if (before) {
    PERI_ASSIGN(then, processes_of(*before, nullptr));
  }
  if (!now.find("processes")) return out;  // an older server
  PERI_ASSIGN(const auto* list, now.get_array("processes"));
  for (const Json& p : *list) {
    Process one;
    PERI_ASSIGN(const std::string_view name, p.get_string("name"));
    one.name = name;
    PERI_ASSIGN(one.pid, p.get_int("pid"));
    PERI_ASSIGN(one.resident, p.get_int("resident_bytes"));
    PERI_ASSIGN(one.peak, p.get_int("peak_bytes"));
    PERI_ASSIGN(one.cpu_s, p.get_double("cpu_seconds"));
    for (const Process& old : then)
      if (old.pid == one.pid) one.cpu_s = std::max(0.0, one.cpu_s - old.cpu_s);
    out.push_back(std::move(one));
  }
  return out;
}

Result<Look> look_at(const Json& now, const Json* before) {
  Look out;
  PERI_ASSIGN(out.up_s, now.get_double("seconds"));
  PERI_ASSIGN(out.open, now.get_int("open_requests"));
  PERI_ASSIGN(double cpu, now.get_double("cpu_seconds"));
  out.seconds = out.up_s;
  if (before) {
    PERI_ASSIGN(const double then, before->get_double("seconds"));
    PERI_ASSIGN(const double cpu_then, before->get_double("cpu_seconds"));
    if (then >= out.up_s) {
      before = nullptr;  // the server was restarted
    } else {
      out.seconds = out.up_s - then;
      cpu -= cpu_then;
    }
  }
  out.cpu = out.seconds > 0 ? std::max(0.0, cpu) / out.seconds : 0;
  PERI_ASSIGN(out.processes, processes_of(now, before));
  PERI_ASSIGN(const auto* memory, now.get("memory"));
  PERI_ASSIGN(out.resident, memory->get_int("resident_bytes"));
  PERI_ASSIGN(out.peak, memory->get_int("peak_bytes"));
  PERI_ASSIGN(out.machine, memory->get_int("machine_bytes"));
  PERI_ASSIGN(const bool ready, now.get_bool("ready"));
  PERI_ASSIGN(const bool draining, now.get_bool("draining"));
  out.state = draining ? "draining" : ready ? "ready" : "not ready";
  std::map<std::string, ModelRow> old;
  if (before) {
    PERI_ASSIGN(const auto* then, before->get_array("models"));
    for (const Json& m : *then) {
      PERI_ASSIGN(ModelRow row, row_of(m, nullptr));
      old[row.name + "/" + row.version] = std::move(row);
    }
  }
  PERI_ASSIGN(const auto* models, now.get_array("models"));
  for (const Json& m : *models) {
    PERI_ASSIGN(ModelRow whole, row_of(m, nullptr));
    const auto it = old.find(whole.name + "/" + whole.version);
    if (it == old.end() || it->second.executions > whole.executions) {
      out.models.push_back(std::move(whole));
      continue;
    }
    PERI_ASSIGN(ModelRow since, row_of(m, &it->second));
    out.models.push_back(std::move(since));
  }
  PERI_ASSIGN(out.others, others_of(now));
  return out;
}

std::string title_of(const ModelRow& m) { return printable(m.name + "/" + m.version); }

// Of the column of names: what the longest takes, as far as a row fits the terminal.
size_t name_columns(const std::vector<ModelRow>& models, size_t terminal) {
  size_t out = kMinNameColumns;
  for (const ModelRow& m : models) out = std::max(out, columns_of(title_of(m)));
  return terminal == 0 ? out : std::max(kMinNameColumns, std::min(out, terminal - std::min(terminal, kNumberColumns)));
}

// "1 10%, 4 90%": the most frequent values, in ascending order.
std::string shares(const Counts& counts) {
  std::vector<std::pair<std::string, int64_t>> list;
  int64_t all = 0;
  for (const auto& [name, n] : counts)
    if (n > 0) {
      list.emplace_back(name, n);
      all += n;
    }
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  if (list.size() > 5) list.resize(5);
  std::string out;
  for (const auto& [name, n] : list)
    out +=
        (out.empty() ? "" : ", ") + name + format(" %.0f%%", 100 * static_cast<double>(n) / static_cast<double>(all));
  return out;
}

// "  sequences 3 of 8, 1 waits, 2.0 KiB kept; 9 begun, 6 ended".
void add_sequences(const ModelRow& m, std::vector<std::string>* out) {
  const auto n = [](const Counts& counts, const char* key) { return static_cast<long long>(counts.at(key)); };
  std::string line = format("  sequences %lld of %lld", n(m.sequences, "active"), n(m.sequences, "slots"));
  if (n(m.sequences, "backlog") > 0) line += format(", %lld wait", n(m.sequences, "backlog"));
  if (n(m.sequences, "state_bytes") > 0)
    line += ", " + bytes_text(static_cast<double>(m.sequences.at("state_bytes"))) + " kept";
  std::string over;
  for (const char* key : {"begun", "ended", "idle", "failed"})
    if (n(m.sequences_over, key) > 0)
      over += (over.empty() ? "; " : ", ") + format("%lld %s", n(m.sequences_over, key), key);
  out->push_back(line + over);
}

void add_model(const ModelRow& m, size_t columns, double seconds, std::vector<std::string>* out) {
  const double rate = seconds > 0 ? static_cast<double>(m.success) / seconds : 0;
  const std::string name = in_columns(cut_to_columns(title_of(m), columns), columns);
  out->push_back(format("%s %8.1f %5lld %5s %9s %9s", name.c_str(), rate, static_cast<long long>(m.pending),
                        known(rows_of_batch(m), "%.1f").c_str(), known(quantile_ms(m, 0.5), "%.3f").c_str(),
                        known(quantile_ms(m, 0.99), "%.3f").c_str()));
  if (m.memory > 0) out->push_back("  memory " + bytes_text(static_cast<double>(m.memory)));
  if (const std::string list = shares(m.batches); !list.empty()) out->push_back("  rows " + list);
  if (const std::string list = shares(m.cuts); !list.empty()) out->push_back("  cut " + list);
  if (!m.sequences.empty()) add_sequences(m, out);
  std::string failed;
  for (const auto& [why, n] : m.failures)
    if (n > 0) failed += (failed.empty() ? "" : ", ") + std::to_string(n) + " " + why;
  if (!failed.empty()) out->push_back("  failed " + failed);
}

void add_head(const Look& look, std::vector<std::string>* out) {
  out->push_back(format("%s, up %.0f s, %lld open, %.2f processors", look.state.c_str(), look.up_s,
                        static_cast<long long>(look.open), look.cpu));
  out->push_back("memory " + bytes_text(static_cast<double>(look.resident)) + ", at most " +
                 bytes_text(static_cast<double>(look.peak)) + ", of " + bytes_text(static_cast<double>(look.machine)));
  for (const Process& p : look.processes)
    if (look.processes.size() > 1)
      out->push_back("  " + printable(p.name) + " " + bytes_text(static_cast<double>(p.resident)) + ", at most " +
                     bytes_text(static_cast<double>(p.peak)) +
                     format(", %.2f processors", look.seconds > 0 ? p.cpu_s / look.seconds : 0));
}

// Of a terminal of so many columns, which wraps lines.
size_t rows_of(const std::vector<std::string>& lines, size_t columns) {
  size_t out = 0;
  for (const std::string& line : lines)
    out += columns == 0 ? 1 : std::max<size_t>(1, (columns_of(line) + columns - 1) / columns);
  return out;
}

// Adds at most so many lines: of the busiest models, of some that are not served, and how many are not shown.
void fit(Look look, size_t columns, size_t rows, std::vector<std::string>* out) {
  const auto busier = [](const ModelRow& a, const ModelRow& b) {
    return std::pair(a.success, a.pending + a.running) > std::pair(b.success, b.pending + b.running);
  };
  std::ranges::stable_sort(look.models, busier);
  const size_t others = std::min(look.others.size(), std::max<size_t>(1, rows / 4));
  size_t left = rows - std::min(rows, others + 1), shown = 0;
  for (const ModelRow& m : look.models) {
    std::vector<std::string> lines;
    add_model(m, columns, look.seconds, &lines);
    if (m.success + m.pending + m.running == 0) lines.resize(1);  // more of those that are idle
    if (lines.size() > left && shown == 0) lines.resize(left);
    if (lines.size() > left || lines.empty()) break;
    left -= lines.size();
    ++shown;
    out->insert(out->end(), lines.begin(), lines.end());
  }
  const size_t served = look.models.size() - shown, failed = look.others.size() - others;
  for (size_t k = 0; k < others; ++k) out->push_back(printable(look.others[k]));
  std::string last = format("not shown: %s", counted(static_cast<int64_t>(served), "model").c_str());
  if (failed > 0) last += format(" and %lld that are not served", static_cast<long long>(failed));
  out->push_back(last + "; all: --once");
}
}  // namespace

Result<std::vector<std::string>> top_lines(const Json& now, const Json* before, size_t terminal, size_t rows) {
  PERI_ASSIGN(Look look, look_at(now, before));
  std::vector<std::string> out;
  add_head(look, &out);
  const size_t columns = name_columns(look.models, terminal);
  out.push_back(format("%s %8s %5s %5s %9s %9s", in_columns("model", columns).c_str(), "done/s", "queue", "batch",
                       "p50 ms", "p99 ms"));
  const size_t head = out.size();
  for (const ModelRow& m : look.models) add_model(m, columns, look.seconds, &out);
  for (const std::string& other : look.others) out.push_back(printable(other));
  if (rows == 0 || rows_of(out, terminal) < rows) return out;
  out.resize(head);
  fit(std::move(look), columns, rows - std::min(rows, head + 1), &out);
  if (terminal > 0)
    for (std::string& line : out) line = cut_to_columns(line, terminal - 1);
  if (out.size() + 1 > rows) out.resize(std::max<size_t>(rows, 2) - 1);
  return out;
}

Result<std::string> top_json(const Json& now, const Json* before) {
  PERI_ASSIGN(const Look look, look_at(now, before));
  JsonWriter w;
  w.begin_object().field("state", look.state).field("up_seconds", look.up_s).field("seconds", look.seconds);
  w.field("open_requests", look.open).field("processors", look.cpu).field("resident_bytes", look.resident);
  w.field("peak_bytes", look.peak).field("machine_bytes", look.machine).key("processes").begin_array();
  for (const Process& p : look.processes) {
    w.begin_object().field("name", p.name).field("pid", p.pid);
    w.field("processors", look.seconds > 0 ? p.cpu_s / look.seconds : 0);
    w.field("resident_bytes", p.resident).field("peak_bytes", p.peak).end_object();
  }
  w.end_array().key("models").begin_array();
  for (const ModelRow& m : look.models) {
    w.begin_object()
        .field("name", m.name)
        .field("version", m.version)
        .field("queue", m.pending)
        .field("running", m.running)
        .field("memory_bytes", m.memory);
    w.field("per_second", look.seconds > 0 ? static_cast<double>(m.success) / look.seconds : 0);
    const auto or_null = [&](const char* key, std::optional<double> v) {
      w.key(key);
      v ? w.value(*v) : w.null();
    };
    or_null("batch_rows", rows_of_batch(m));
    or_null("p50_ms", quantile_ms(m, 0.5));
    or_null("p99_ms", quantile_ms(m, 0.99));
    for (const auto& [key, counts] : {std::pair{"batches", &m.batches}, {"cuts", &m.cuts}, {"failures", &m.failures}}) {
      w.key(key).begin_object();
      for (const auto& [name, n] : *counts) w.field(name, n);
      w.end_object();
    }
    if (!m.sequences.empty()) {
      w.key("sequences").begin_object();
      for (const Counts* counts : {&m.sequences, &m.sequences_over})
        for (const auto& [name, n] : *counts) w.field(name, n);
      w.end_object();
    }
    w.end_object();
  }
  w.end_array().key("not_served").begin_array();
  for (const std::string& other : look.others) w.value(other);
  return w.end_array().end_object().take();
}

}  // namespace peri::cli
