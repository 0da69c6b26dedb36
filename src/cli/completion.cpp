// peri completion: shell completion, generated from the entries of all commands.
#include <algorithm>
#include <cctype>
#include <cstdio>

#include "base/json.hpp"
#include "cli/console/arguments.hpp"
#include "cli/console/page.hpp"

namespace peri::cli {
namespace {

std::vector<const Command*> shown() {
  std::vector<const Command*> out;
  for (const Entry* e : entries())
    if (!e->command.hidden) out.push_back(&e->command);
  return out;
}

std::vector<Flag> flags_of(const Command& c) {
  std::vector<Flag> out = c.flags;
  for (const Flag& f : common_flags()) out.push_back(f);
  return out;
}

// Capitals without a digit stand for something: a file, a number.
bool stands_for_another(const std::string& word) {
  const auto has = [&](int (*kind)(int)) {
    return std::any_of(word.begin(), word.end(), [kind](char c) { return kind(static_cast<unsigned char>(c)) != 0; });
  };
  return has(std::isupper) && !has(std::isdigit);
}

// The words of "[path|list|clear]" and "default|ISO8601"; those of "random|zero|FILE" that stand for themselves.
std::vector<std::string> fixed_words(std::string_view positional) {
  std::vector<std::string> out(1);
  for (char c : positional) {
    if (c == '|') out.emplace_back();
    if (std::isalnum(static_cast<unsigned char>(c))) out.back() += c;
  }
  std::erase(out, "");
  std::erase_if(out, stands_for_another);
  return out;
}

// `text` in single quotes.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// Escaped for the description in brackets of zsh's _arguments.
std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) out += std::string(std::string_view("[]:\\").find(c) == std::string_view::npos ? "" : "\\") + c;
  return out;
}

// The values of a flag that are words: each of "f32|f16|bf16".
std::vector<std::string> choices_of(const Flag& f) {
  return f.value.find('|') == std::string_view::npos ? std::vector<std::string>() : fixed_words(f.value);
}

bool takes_folder(const Flag& f) { return f.value == "DIR"; }
bool takes_file(const Flag& f) {
  for (const char* kind : {"FILE", "ENGINE", "MODEL", "PATH"})
    if (f.value.find(kind) != std::string_view::npos) return true;
  return false;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : " ") + w;
  return out;
}

// The values after each flag: choices, and bash's way to complete names (-f files, -d folders, - nothing).
std::string bash_values(const Command& c) {
  std::string out;
  for (const Flag& f : flags_of(c)) {
    if (f.value.empty()) continue;
    const std::string choices = joined(choices_of(f));
    const std::string names = std::string(f.name) + (f.short_name.empty() ? "" : "|" + std::string(f.short_name));
    out += "        " + names + ") " + (choices.empty() ? "" : "values='" + choices + "' ") +
           (takes_folder(f) ? "how=-d"
            : takes_file(f) ? "how=-f"
                            : "how=-") +
           " ;;\n";
  }
  return out.empty() ? "" : "      case $before in\n" + out + "      esac";
}

std::string bash() {
  std::string names, cases;
  for (const Command* c : shown()) {
    names += std::string(c->name) + " ";
    std::string flags;
    for (const Flag& f : flags_of(*c)) flags += (flags.empty() ? "" : " ") + std::string(f.name);
    cases += "    " + std::string(c->name) + ") flags='" + flags + "' words='" + joined(fixed_words(c->positional)) +
             "'\n" + bash_values(*c) + " ;;\n";
  }
  return "_peri() {\n  local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} flags= words= values= "
         "how=\n"
         "  COMPREPLY=()\n"
         "  if [[ $cur == = ]]; then\n    cur=\n"  // bash splits --dtype=f16 into three words
         "  elif [[ $before == = ]]; then\n    before=${COMP_WORDS[COMP_CWORD-2]}\n  fi\n"
         "  if ((COMP_CWORD == 1)); then\n    COMPREPLY=($(compgen -W '" +
         names +
         "help --help --version' -- \"$cur\"))\n    return\n  fi\n"
         "  case ${COMP_WORDS[1]} in\n    help) words='" +
         names + "' ;;\n" + cases +
         "  esac\n"
         "  if [[ -n $how ]]; then\n    [[ -n $values ]] && COMPREPLY=($(compgen -W \"$values\" -- \"$cur\"))\n"
         "  elif [[ $cur == -* ]]; then\n    COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n"
         // What takes one of some words takes neither a second one nor files.
         "  elif [[ -n $words ]]; then\n    ((COMP_CWORD == 2)) && COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
         "  else\n    how=-f\n  fi\n"
         // Only names of files are quoted, and get a slash where they are folders: a command may be called as one.
         "  if [[ $how == -[df] ]]; then\n    compopt -o filenames 2>/dev/null || :\n"
         "    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen $how -- \"$cur\")\n  fi\n  return 0\n}\n"
         "complete -F _peri peri\n";
}

std::string zsh_value(const Flag& f) {
  if (f.value.empty()) return "";
  const std::string choices = joined(choices_of(f));
  const std::string what = ":" + escaped(f.value) + ":";
  if (!choices.empty() && takes_file(f)) return what + "{compadd " + choices + "; _files}";
  return what + (!choices.empty()                              ? "(" + choices + ")"
                 : takes_folder(f)                             ? "_files -/"
                 : !takes_file(f)                              ? " "
                 : f.value.find('=') == std::string_view::npos ? "_files"
                                                               : "{compset -P 1 \"*=\"; _files}");  // NAME=FILE
}

// A flag by one of its names: its value is the next word, or follows "=" (-x: directly) in the same word.
std::string zsh_flag(const Flag& f, std::string_view name) {
  const std::string joint = f.value.empty() ? "" : name.starts_with("--") ? "=" : "+";
  return " \\\n        " +
         quoted((f.repeated ? "*" : "") + std::string(name) + joint + "[" + escaped(f.help) + "]" + zsh_value(f));
}

std::string zsh() {
  std::string names, cases;
  for (const Command* c : shown()) {
    names += "    " + quoted(std::string(c->name) + ":" + std::string(c->summary)) + "\n";
    cases += "    " + std::string(c->name) + ")\n      _arguments";
    for (const Flag& f : flags_of(*c))
      cases += zsh_flag(f, f.name) + (f.short_name.empty() ? "" : zsh_flag(f, f.short_name));
    const std::string words = joined(fixed_words(c->positional));
    cases += " \\\n        " + (words.empty() ? std::string("'*:file:_files'") : "':word:(" + words + ")'") + " ;;\n";
  }
  return "#compdef peri\n_peri() {\n  local -a commands=(\n" + names +
         "  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n  shift words\n  "
         "((CURRENT--))\n  case $words[1] in\n    help) ((CURRENT == 2)) && _describe command commands ;;\n" +
         cases +
         // As a file of fpath it is called for the first completion, and as a script it is not.
         "  esac\n}\ncompdef _peri peri\nif [[ ${funcstack[1]} == _peri ]]; then _peri \"$@\"; fi\n";
}

std::string fish_value(const Flag& f) {
  if (f.value.empty()) return "";
  const std::string choices = joined(choices_of(f));
  if (!choices.empty()) return (takes_file(f) ? " -r -F -a " : " -x -a ") + quoted(choices);
  return takes_folder(f) || takes_file(f) ? " -r -F" : " -x";
}

std::string fish() {
  // The command is the first word, whatever later words are called; its own first word is the one behind it.
  std::string out =
      "function __peri_command\n  set -l words (commandline -opc)\n"
      "  test (count $words) -gt 1; and test $words[2] = $argv[1]\nend\n"
      "function __peri_first\n  __peri_command $argv[1]; and test (count (commandline -opc)) -eq 2\nend\n"
      "complete -c peri -n __fish_use_subcommand -f -l help -d 'show all commands'\ncomplete -c peri -n "
      "__fish_use_subcommand -f -l version -d 'print the version'\n";
  std::string names;
  for (const Command* c : shown()) names += (names.empty() ? "" : " ") + std::string(c->name);
  out +=
      "complete -c peri -n __fish_use_subcommand -f -a help -d 'explain one command'\ncomplete -c peri -n "
      "'__peri_command help' -f\ncomplete -c peri -n '__peri_first help' -a " +
      quoted(names) + "\n";
  for (const Command* c : shown()) {
    out +=
        "complete -c peri -n __fish_use_subcommand -f -a " + std::string(c->name) + " -d " + quoted(c->summary) + "\n";
    const std::string within = "complete -c peri -n '__peri_command " + std::string(c->name) + "'";
    for (const Flag& f : flags_of(*c)) {
      out += within + " -l " + std::string(f.name.substr(2)) +
             (f.short_name.empty() ? "" : " -s " + std::string(f.short_name.substr(1)));
      out += fish_value(f) + " -d " + quoted(f.help) + "\n";
    }
    if (!fixed_words(c->positional).empty()) out += within + " -f\n";
    for (const std::string& w : fixed_words(c->positional))
      out += "complete -c peri -n '__peri_first " + std::string(c->name) + "' -a " + w + "\n";
  }
  return out;
}

Result<Outcome> run(const Arguments& arguments) {
  const std::string& shell = arguments.positional[0];
  std::string script;
  if (shell == "bash")
    script = bash();
  else if (shell == "zsh")
    script = zsh();
  else if (shell == "fish")
    script = fish();
  else
    return usage("no completion for '%s'", shell.c_str()).expecting("bash, zsh or fish");
  if (arguments.get("--json") != "-") std::fputs(script.c_str(), stdout);
  JsonWriter w;
  w.begin_object().field("shell", shell).field("script", script).end_object();
  return Outcome{shell + ", " + std::to_string(shown().size()) + " commands", w.take()};
}
}  // namespace

extern const Entry completion_entry;
const Entry completion_entry{{
    .name = "completion",
    .summary = "print a completion script for a shell",
    .positional = "bash|zsh|fish",
    .min_positional = 1,
    .max_positional = 1,
    .details = "example:\n  peri completion bash >build/peri_completion && . build/peri_completion",
    .run = run,
}};

}  // namespace peri::cli
