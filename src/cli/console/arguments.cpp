// Parses a command line against the flags of a command; generates its help text.
#include "cli/console/arguments.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/fault.hpp"
#include "base/kept_files.hpp"
#include "base/knobs.hpp"
#include "base/spelling.hpp"
#include "base/system_text.hpp"
#include "build/model_files.hpp"
#include "build/open.hpp"
#include "build/proof.hpp"
#include "build/request.hpp"
#include "cli/console/spellings.hpp"
#include "cli/console/terminal.hpp"
#include "plan/engine_file.hpp"
#include "tune/cache_files.hpp"

namespace peri::cli {

const FileKind kAnswerFile{"a result of peri", [](std::string_view head) { return head.starts_with("{\"command\":"); },
                           true, FileKind::Dash::kOutput};

namespace {
const FileKind kLogFile{"a log of peri", [](std::string_view head) { return head.starts_with("peri "); }};

const Flag kCommon[] = {
    {"--json", "", "FILE", "write the result as one JSON object to FILE (- for standard output)", false, &kAnswerFile},
    {"--force", "", "", "overwrite files of another kind"},
    {"--quiet", "-q", "", "no progress and no tables: only notes, errors and the last line"},
    {"--verbose", "-v", "", "one line for each step of the work, with its time, instead of a progress line"},
    {"--log", "", "FILE", "write these lines to FILE", false, &kLogFile},
    {"--help", "-h", "", "show this help"},
};

const Flag* find_flag(const Command& c, std::string_view word) {
  for (const Flag& f : c.flags)
    if (f.name == word || (!f.short_name.empty() && f.short_name == word)) return &f;
  for (const Flag& f : kCommon)
    if (f.name == word || (!f.short_name.empty() && f.short_name == word)) return &f;
  return nullptr;
}
// Whether a word is a flag of the command, with or without its value.
bool names_flag(const Command& c, std::string_view word) {
  return word.starts_with("-") && find_flag(c, word.starts_with("--") ? word.substr(0, word.find('=')) : word);
}
}  // namespace

std::string Arguments::get(std::string_view flag, std::string_view fallback) const {
  auto it = values.find(flag);
  return it == values.end() ? std::string(fallback) : it->second.back();
}
std::vector<std::string> Arguments::all(std::string_view flag) const {
  auto it = values.find(flag);
  return it == values.end() ? std::vector<std::string>{} : it->second;
}
std::string Arguments::spelled(std::string_view flag) const {
  const auto it = typed.find(flag);
  return it == typed.end() ? std::string(flag) : it->second;
}
Result<int64_t> Arguments::number(std::string_view flag, int64_t low, int64_t high, int64_t fallback) const {
  auto it = values.find(flag);
  if (it == values.end()) return fallback;
  const std::string& text = it->second.back();
  int64_t v = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (code != std::errc() || end != text.data() + text.size() || v < low || v > high)
    return usage("%s is not in range", spelled(flag).c_str())
        .expecting(
            format("a whole number from %lld to %lld", static_cast<long long>(low), static_cast<long long>(high)))
        .but_found(text);
  return v;
}

Result<double> Arguments::real(std::string_view flag, double low, double high, double fallback) const {
  auto it = values.find(flag);
  if (it == values.end()) return fallback;
  const std::string& text = it->second.back();
  double v = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (code != std::errc() || end != text.data() + text.size() || !(v >= low && v <= high) || !std::isfinite(v))
    return usage("%s is not in range", spelled(flag).c_str())
        .expecting(high == HUGE_VAL ? format("a finite number of %g or more", low)
                                    : format("a number from %g to %g", low, high))
        .but_found(text);
  return v + 0.0;  // -0 is 0
}

namespace {
Error unknown_flag(const Command& command, std::string word) {
  word.resize(std::min(word.find('='), word.size()));  // of "-hint=latency"; after two dashes it is cut already
  Error error = usage("peri %s has no flag '%s'", std::string(command.name).c_str(), word.c_str());
  if (const std::string_view advice = advice_on(command, word); !advice.empty())
    return std::move(error).advise(std::string(advice));
  std::vector<std::string_view> known;
  for (const Flag& x : command.flags) known.push_back(x.name);
  for (const Flag& x : kCommon) known.push_back(x.name);
  const std::string near = nearest(word, known), elsewhere = advice_elsewhere(command, word);
  return std::move(error).advise(!elsewhere.empty() ? elsewhere
                                 : near.empty()     ? "see: peri " + std::string(command.name) + " --help"
                                                    : "did you mean " + near + "?");
}
}  // namespace

Result<Arguments> parse_arguments(const Command& command, std::span<char* const> words) {
  Arguments out;
  bool only_positional = false;
  for (size_t k = 0; k < words.size(); ++k) {
    std::string word = words[k];
    if (only_positional || word == "-" || word.size() < 2 || word[0] != '-') {
      out.positional.push_back(word);
      continue;
    }
    if (word == "--") {
      only_positional = true;
      continue;
    }
    std::optional<std::string> value;
    if (const size_t eq = word.find('='); word.starts_with("--") && eq != std::string::npos) {
      value = word.substr(eq + 1);
      word.resize(eq);
    }
    const Flag* f = find_flag(command, word);
    if (!f) {
      const Spelt ours = our_spelling(command, word);
      if (ours.value && value) return usage("%s takes no value", word.c_str());
      if (ours.value) value = ours.value;
      if (ours.positional) {
        if (!value && k + 1 >= words.size()) return usage("%s needs a value: FILE", word.c_str());
        out.positional.push_back(value ? *value : std::string(words[++k]));
        continue;
      }
      f = find_flag(command, ours.word);
    }
    if (!f) return unknown_flag(command, word);
    if (f->value.empty() && value) return usage("%s takes no value", word.c_str());
    if (!f->value.empty() && !value) {
      // A flag after it is not its value: "-o --quiet" would write a file of that name.
      if (k + 1 >= words.size() || std::string_view(words[k + 1]) == "--" || names_flag(command, words[k + 1]))
        return usage("%s needs a value: %s", word.c_str(), std::string(f->value).c_str());
      value = words[++k];
    }
    if (value && value->empty() && f->value != "TEXT")  // an unset variable of a script
      return usage("%s has an empty value", word.c_str()).expecting(std::string(f->value));
    std::vector<std::string>& list = out.values[std::string(f->name)];
    if (!list.empty() && !f->repeated) {
      const std::string& before = out.typed[std::string(f->name)];
      if (before != word && (our_spelling(command, before).value || our_spelling(command, word).value))
        return usage("%s and %s both give %s a value", before.c_str(), word.c_str(), std::string(f->name).c_str())
            .advise("give one of them");
      const std::string_view twice = advice_on_twice(command, f->name);
      return usage("%s is given twice", word.c_str())
          .advise(!twice.empty()   ? std::string(twice)
                  : before == word ? "give it once"
                                   : before + " is the same: give one of them");
    }
    out.typed[std::string(f->name)] = word;
    list.push_back(value.value_or(""));
  }
  if (out.has("--help")) return out;
  for (const std::string& word : out.positional)
    if (word.empty()) return usage("an argument is empty").expecting(std::string(command.positional));
  const int count = static_cast<int>(out.positional.size());
  if (count < command.min_positional || count > command.max_positional)
    return usage("peri %s takes %s", std::string(command.name).c_str(),
                 command.positional.empty() ? "no arguments" : std::string(command.positional).c_str())
        .but_found(format("%d argument%s", count, count == 1 ? "" : "s"))
        .advise(!advice_on_arguments(command).empty() ? std::string(advice_on_arguments(command))
                                                      : "see: peri " + std::string(command.name) + " --help");
  return out;
}

std::span<const Flag> common_flags() { return kCommon; }

std::string help_text(const Command& c, size_t columns) {
  std::string out = "usage: peri " + std::string(c.name) +
                    (c.positional.empty() ? "" : " " + std::string(c.positional)) + " [flags]\n\n" +
                    help_row("", c.summary, 2, columns) + "\nflags:\n";
  auto row = [&](const Flag& f) {
    const std::string left = "  " + (f.short_name.empty() ? std::string("    ") : std::string(f.short_name) + ", ") +
                             std::string(f.name) + (f.value.empty() ? "" : " " + std::string(f.value));
    out += help_row(left, std::string(f.help) + (f.repeated ? " (may be repeated)" : ""), 36, columns);
  };
  for (const Flag& f : c.flags) row(f);
  for (const Flag& f : kCommon) row(f);
  if (c.details.empty()) return out;
  out += "\n";
  std::string paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) out += help_row("", paragraph, 0, columns);
    paragraph.clear();
  };
  for (std::string_view rest = c.details; !rest.empty();) {  // indented lines are examples and not wrapped
    const std::string_view line = rest.substr(0, rest.find('\n'));
    if (line.empty() || line.starts_with("  ")) {
      end_paragraph();
      out += std::string(line) + "\n";
    } else {
      paragraph += (paragraph.empty() ? "" : " ") + std::string(line);
      if (line.ends_with(':')) end_paragraph();
    }
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
  end_paragraph();
  return out;
}

namespace {
// A file or folder that is read, with all that lies behind it.
void add_read(const std::string& what, const std::string& path, FileUses* uses) {
  uses->reads(what, path);
  uses->reads_parts("a file of " + what, [path] { return build::files_behind(path); });
  if (build::is_engine(path)) uses->reads("the proof of '" + path + "'", build::proof_path(path));
}

// A result gives way to one of the same command: what another measured may have taken hours.
const FileKind& answer_of(const Command& command) {
  struct Kind {
    std::string name, beginning;
    FileKind kind;
  };
  static std::map<std::string_view, Kind> all;
  const auto [at, made] = all.try_emplace(command.name);
  Kind& k = at->second;
  if (made) {
    k.name = "a result of peri " + std::string(command.name);
    k.beginning = "{\"command\":\"" + std::string(command.name) + "\"";
    k.kind = {k.name, nullptr, kAnswerFile.streams, kAnswerFile.dash, k.beginning};
  }
  return k.kind;
}

// What the environment names: the files of the cache, and kernels from outside.
void add_environment(FileUses* uses) {
  if (const std::string cache = cache_folder(); !cache.empty()) {
    for (const char* tail : {"", "-wal", "-shm"})  // of SQLite
      uses->reads("the timing cache", cache + tune::kTimingsFile + tail);
    for (const KeptKind* kind : kept_kinds())
      uses->reads_parts("a file of the cache",
                        [folder = kept_folder(*kind, cache)] { return build::files_behind(folder); });
  }
  for (const std::string& manifest : parts_of(knob(Knob::kKernels).value_or(""), ":"))
    if (!manifest.empty()) add_read("a kernel of PERI_KERNELS", manifest, uses);
}
}  // namespace

FileUses file_uses(const Command& command, const Arguments& arguments) {
  FileUses out;
  add_environment(&out);
  for (const std::string& word : arguments.positional) add_read("the input '" + word + "'", word, &out);
  for (const auto& [name, values] : arguments.values) {
    const Flag* f = find_flag(command, name);
    if (!f) continue;
    const bool names_file = f->value.ends_with("FILE") || f->value == "ENGINE" || f->value.starts_with("MODEL") ||
                            (f->value == "DIR" && !f->fills);
    for (const std::string& value : values) {
      if (f->writes) out.writes(name, value, f->writes == &kAnswerFile ? answer_of(command) : *f->writes);
      if (f->writes == &plan::kEngineFile)
        out.writes("the engine's proof", build::proof_path(value), build::kProofFile);
      if (f->writes || !names_file) continue;
      const bool named = f->value.find('=') != std::string_view::npos;
      for (const std::string& file : named ? input_files(value) : std::vector{value}) add_read(name, file, &out);
    }
  }
  return out;
}

namespace {
// Checks that each output file can be created; files in a folder that the run itself makes are not checked.
Status check_folders(const Command& command, const Arguments& arguments) {
  const auto whole = [](const std::string& path) {
    std::error_code failed;
    return std::filesystem::absolute(path, failed).lexically_normal();
  };
  const std::string outputs = arguments.get("--output-dir");
  for (const auto& [name, values] : arguments.values) {
    const Flag* f = find_flag(command, name);
    if (!f || !f->writes) continue;
    const std::string& file = values.back();
    const bool within = !outputs.empty() && !whole(file).lexically_relative(whole(outputs)).string().starts_with("..");
    const bool grows = name.ends_with("log") && access(file.c_str(), W_OK) == 0;  // appended in place
    if (within || grows || (f->writes->dash != FileKind::Dash::kNone && file == "-")) continue;
    PERI_TRY(build::check_folder_of(file));
  }
  return Ok{};
}
}  // namespace

Result<Outcome> run_command(const Command& command, const Arguments& arguments) {
  PERI_TRY(file_uses(command, arguments).check(arguments.has("--force")));
  PERI_TRY(check_folders(command, arguments));
  if (arguments.has("--quiet") && arguments.has("--verbose"))
    return usage("--quiet and --verbose exclude each other").advise("give one of the two");
  PERI_TRY(keep_log(arguments.has("--verbose"), arguments.get("--log"), command.name));
  Result<Outcome> outcome = contained([&] { return command.run(arguments); });
  const bool line = std::string_view(command.positional).starts_with("LINE");  // what is typed is no file
  if (!outcome.ok() && !line && outcome.error().file.empty() && outcome.error().kind != ErrorKind::kUsage &&
      command.max_positional == 1 && !arguments.positional.empty())
    return std::move(outcome).error().in_file(arguments.positional[0]);  // a later failure is also about this model
  return outcome;
}

const Command* find(std::string_view name) {
  for (const Entry* e : entries())
    if (e->command.name == name) return &e->command;
  return nullptr;
}

}  // namespace peri::cli
