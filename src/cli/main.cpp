// The program: finds the subcommand, parses its flags, runs it, and ends with one line that states PASSED or FAILED
// with the reason.
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/fault.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/knobs.hpp"
#include "base/remedy.hpp"
#include "base/spelling.hpp"
#include "base/version.hpp"
#include "build/request.hpp"
#include "cli/console/arguments.hpp"
#include "cli/console/profile.hpp"
#include "cli/console/spellings.hpp"
#include "cli/console/stack.hpp"
#include "cli/console/terminal.hpp"
#include "exec/weights/packed_files.hpp"
#include "kernels/outside/outside.hpp"

namespace peri::cli {
namespace {

constexpr size_t kMaxHelpColumns = 100;

// Why standard output could not be written; keep_streams() opens a closed one for reading.
std::string unwritten() {
  if ((fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY) return "standard output is closed";
  pollfd now = {STDOUT_FILENO, POLLOUT, 0};
  if (poll(&now, 1, 0) > 0 && (now.revents & POLLERR)) return "the reader of standard output is gone";
  return "standard output does not take the answer: is the disk full?";
}

std::string overview(size_t columns) {
  std::string out =
      help_row("", "peri " + std::string(version()) + ": a trained model in, a fast engine with proven answers out", 0,
               columns) +
      "\nusage: peri COMMAND [arguments]\n\n";
  for (const Entry* e : entries()) {
    if (e->command.hidden) continue;
    out += help_row("  " + std::string(e->command.name), e->command.summary, 14, columns);
  }
  out += "\nenvironment:\n";
  for (const KnobRow& row : knob_rows()) out += help_row("  " + std::string(row.variable), row.summary, 26, columns);
  return out + "\n" +
         help_row("", "'peri help COMMAND' explains one; 'peri --version' prints the version.", 0, columns);
}

// An object with the members of two.
std::string joined(std::string first, const std::string& second) {
  if (second.size() > 2) {
    first.back() = ',';
    first += second.substr(1);
  }
  return first;
}

// The object for --json: the command, whether it was interrupted, and the members of the outcome or error.
std::string answer(std::string_view command, bool cut, const std::string& object) {
  JsonWriter w;
  w.begin_object().field("command", command).field("interrupted", cut).end_object();
  return joined(w.take(), object);
}

std::string error_object(const Error& e) {
  JsonWriter w;
  w.begin_object().key("error").begin_object();
  w.field("kind", error_kind_name(e.kind)).field("message", e.message).field("file", e.file).field("node", e.node);
  w.field("expected", e.expected).field("found", e.found).field("remedy", e.remedy);
  w.end_object().end_object();
  return std::move(w).take();
}

// Whether --json may write to the path; if its file itself is the error, nothing is written there.
bool takes_answer(const Arguments& arguments, std::string_view command, const std::string& path) {
  const Command* c = find(command);
  return (!c || file_uses(*c, arguments).may_write(path, arguments.has("--force"))) &&
         build::check_folder_of(path).ok();
}
// A command may refuse a file that it writes without being told, such as the engine of `peri build MODEL`.
bool is_about(const Result<Outcome>& result, const std::string& path) {
  return !result.ok() && !result.error().file.empty() && same_file(result.error().file, path);
}

// One object for --json: the outcome's own, the error, or both.
int finish(const Arguments* arguments, const Result<Outcome>& result, std::string_view command) {
  const std::string json_to = arguments ? arguments->get("--json") : "";
  int code = 0;
  std::string last;
  std::string object;
  if (result.ok()) {
    object = result->json.empty() ? "{}" : result->json;
    code = result->code;
    std::string summary = result->summary;
    if (result->error) {
      const Error e = with_memory_remedy(*result->error);
      code = exit_code(e.kind);
      object = joined(error_object(e), object);
      summary += (summary.empty() ? "" : "; ") + e.text();
    }
    const Command* c = find(command);
    const bool cut = code == 0 && interrupted() && !(c && c->runs_until_signal);
    if (cut) code = exit_code(ErrorKind::kCancelled);
    last = (code == 0 ? "PASSED " : "FAILED ") + std::string(command) + (cut ? ": interrupted" : "") +
           (summary.empty() ? "" : ": " + summary);
  } else {
    const Error e = with_memory_remedy(result.error());
    code = exit_code(e.kind);
    object = error_object(e);
    last = "FAILED " + std::string(command) + ": " + e.text();
  }
  // A result that could not be written is a failure of an otherwise successful command.
  const auto failed = [&](std::string_view why) {
    last = code == 0 ? "FAILED " + std::string(command) + ": " + std::string(why) : last + "; " + std::string(why);
    code = code == 0 ? 1 : code;
  };
  const bool meant = code == 0;  // a signal is the normal end of a command that runs until one
  object = answer(command, interrupted() && !meant, object);
  forget_answer();
  if (json_to == "-") {
    std::printf("%s\n", object.c_str());
  } else if (!json_to.empty() && !is_about(result, json_to) && takes_answer(*arguments, command, json_to)) {
    Status written = write_named_file(json_to, object + "\n");
    if (!written.ok()) failed(written.error().text());
  } else if (!json_to.empty() && result.ok()) {
    failed(json_to + ": another file was created there meanwhile, and the result of --json is not written");
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) failed(unwritten());
  for (const std::string& note : exec::take_packed_notes())
    if (arguments) say("note: " + note);
  const Command* const own = find(command);  // null for hidden commands, which print only errors
  if (!own || !own->hidden || (code != 0 && code != exit_code(ErrorKind::kCancelled)))
    code == 0 ? say_wrapped(last) : say(last);
  return code;
}

// The value of --json if the words could not be parsed as a whole: usage errors are reported there too. The next word
// may be unrelated, so an existing file is used only if it contains an object.
Arguments json_of(std::span<char* const> words) {
  std::string to;
  for (size_t k = 0; k < words.size() && to.empty(); ++k) {
    const std::string_view word = words[k];
    if (word == "--") break;
    if (word.starts_with("--json=")) to = word.substr(7);
    if (word == "--json" && k + 1 < words.size() && (words[k + 1][0] != '-' || !words[k + 1][1])) to = words[k + 1];
  }
  Arguments out;
  if (to.empty()) return out;
  std::error_code code;
  if (to != "-" && std::filesystem::exists(to, code)) {
    const auto file = MappedFile::open(to);
    if (!file.ok() || !file->text().starts_with('{')) return out;
  }
  out.values["--json"] = {to};
  return out;
}

// Prints requested text on standard output: help, version.
int tell(const std::string& text, std::string_view of) {
  std::fputs(text.c_str(), stdout);
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return 0;
  say("FAILED " + std::string(of) + ": " + unwritten());
  return 1;
}

// Help is wrapped at a readable width, also without a terminal.
size_t help_columns() {
  const size_t columns = output_columns();
  return columns ? std::min(columns, kMaxHelpColumns) : kMaxHelpColumns;
}

Error no_command(const char* name) {
  std::vector<std::string_view> known = {"help", "--help", "--version"};
  for (const Entry* e : entries())
    if (!e->command.hidden) known.push_back(e->command.name);
  const std::string near = nearest(name, known);
  // A misspelt --help is nearer than a flag before its command.
  if (const std::string_view own = command_elsewhere(name); !own.empty() && (near.empty() || *name != '-'))
    return usage("no command '%s'", name).advise(own);
  return usage("no command '%s'", name).advise(near.empty() ? "see: peri --help" : "did you mean '" + near + "'?");
}

// What stands in a command's place; the overview tells of both.
bool is_help(std::string_view word) { return word == "help" || word == "--help" || word == "-h"; }
bool is_version(std::string_view word) { return word == "--version" || word == "-V" || word == "version"; }

// peri help COMMAND
int help_of(const char* name) {
  if (is_help(name) || is_version(name)) return tell(overview(help_columns()), "help");
  if (const Command* command = find(name)) return tell(help_text(*command, help_columns()), name);
  return finish(nullptr, no_command(name), "help");
}

// Adds the kernels of the environment and of --kernel, before anything is built or run.
Status add_kernels(const Arguments& arguments) {
  if (Status added = kernels::outside::add_all(knob(Knob::kKernels).value_or("")); !added.ok()) {
    Error why = std::move(added).error();
    why.message = "the environment variable PERI_KERNELS names it: " + why.message;
    why.remedy += (why.remedy.empty() ? "" : ", or ") + std::string("correct PERI_KERNELS, or unset it");
    return why;
  }
  for (const std::string& manifest : arguments.all("--kernel")) PERI_TRY(kernels::outside::add(manifest));
  return Ok{};
}

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fputs(overview(help_columns()).c_str(), stderr);
    return exit_code(ErrorKind::kUsage);
  }
  const std::string_view first = argv[1];
  const bool help = is_help(first);
  if (help && argc == 2) return tell(overview(help_columns()), "help");
  const bool version_asked = is_version(first);
  const std::span<char* const> words(argv + 2, static_cast<size_t>(argc - 2));
  // Without a command the flag may stand in its place.
  const Arguments unread =
      json_of(first.starts_with("--json") ? std::span<char* const>(argv + 1, words.size() + 1) : words);
  if ((version_asked && argc > 2) || (help && argc > 3)) {  // help takes the name of a command
    const int further = help && argv[2][0] != '-' ? 3 : 2;
    return finish(&unread, usage("'peri %s' takes no further arguments", argv[1]).but_found(argv[further]), "peri");
  }
  if (version_asked) return tell("peri " + std::string(version()) + "\n", "peri");
  if (help) return help_of(argv[2]);
  if (Status knobs = check_knobs(); !knobs.ok()) return finish(&unread, std::move(knobs).error(), "peri");
  const Command* command = find(argv[1]);
  if (!command) return finish(&unread, no_command(argv[1]), "peri");
  auto arguments = parse_arguments(*command, words);
  if (arguments.ok() && !arguments->has("--help")) arguments = with_profile(*arguments, command->flags);
  if (!arguments.ok()) return finish(&unread, std::move(arguments).error(), command->name);
  if (arguments->has("--help")) {
    if (arguments->has("--json"))
      return finish(&*arguments, usage("--help prints text, and --json asks for an object").advise("leave --json out"),
                    command->name);
    return tell(help_text(*command, help_columns()), command->name);
  }
  // The float64 reference allocates and frees blocks of many megabytes; new pages for each take a fifth of its time.
  // (Thresholds above 32 MiB are ignored, so mapped blocks are disabled.)
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  watch_interrupt(command->hidden ? "" : command->name, command->stops);
  if (const std::string to = arguments->get("--json"); !to.empty() && takes_answer(*arguments, command->name, to)) {
    const Error cancelled(ErrorKind::kCancelled, "interrupted");
    answer_interrupt(to, answer(command->name, true, error_object(cancelled)));
  }
  if (Status added = add_kernels(*arguments); !added.ok())
    return finish(&*arguments, std::move(added).error(), command->name);
  return finish(&*arguments, run_command(*command, *arguments), command->name);
}

}  // namespace
}  // namespace peri::cli

namespace {
int run_all(int argc, char** argv) {
  try {
    const peri::Result<int> code = peri::contained([&]() -> peri::Result<int> { return peri::cli::run(argc, argv); });
    if (code.ok()) return *code;
    peri::cli::say("FAILED peri: " + code.error().text());
    return peri::exit_code(code.error().kind);
  } catch (...) {  // out of memory while reporting the error
    std::fputs("FAILED peri: out of memory\n", stderr);
    return 1;
  }
}
}  // namespace

int main(int argc, char** argv) {
  peri::cli::keep_streams();
  return peri::cli::with_stack([&] { return run_all(argc, argv); });
}
