// Command lines: parsing against a command's flags, and help.
#pragma once

#include "cli/entry.hpp"

namespace peri::cli {

// `words` after the command's name. Errors are kUsage and say what was meant or where help is. Flags: --flag value or
// --flag=value; -- ends them.
Result<Arguments> parse_arguments(const Command& command, std::span<char* const> words);
// Flags of every command: --json, --quiet, --help.
std::span<const Flag> common_flags();
// Lines fit into so many columns, but for examples; 0: they are as long as they are.
std::string help_text(const Command& command, size_t columns = 0);
// The files that the arguments name, to be checked before the work; a command adds what else it writes.
FileUses file_uses(const Command& command, const Arguments& arguments);
// The file of what stands behind NAME= of --input; "" where it is none.
std::string input_file(const std::string& what);
// What --json writes: an object that says first which command it is the answer of.
extern const FileKind kAnswerFile;
// Checks the files, runs the command; what it throws becomes its error, and an error that names no file is about its
// only positional argument.
Result<Outcome> run_command(const Command& command, const Arguments& arguments);

}  // namespace peri::cli
