// Command lines: parsing against a command's flags, and help.
#pragma once

#include "cli/entry.hpp"

namespace peri::cli {

// `words`: after the command's name. Flags: --flag value or --flag=value; -- ends them. Errors: kUsage, with a
// suggestion or a reference to the help.
Result<Arguments> parse_arguments(const Command& command, std::span<char* const> words);
// Flags of every command: --json, --quiet, --help.
std::span<const Flag> common_flags();
// Lines are wrapped to this many columns, except examples; 0: not wrapped.
std::string help_text(const Command& command, size_t columns = 0);
// The files named by the arguments, to be checked before the work; a command adds other files that it writes.
FileUses file_uses(const Command& command, const Arguments& arguments);
// The file in a word NAME=FILE of --input, "" if it is none; each that exists, where the name may end at more than one
// "=". Empty without a name.
std::vector<std::string> input_files(const std::string& word);
// The file of --json: an object whose first member names the command.
extern const FileKind kAnswerFile;
// Checks the files and runs the command. Exceptions become errors; an error without a file gets the only positional
// argument.
Result<Outcome> run_command(const Command& command, const Arguments& arguments);

}  // namespace peri::cli
