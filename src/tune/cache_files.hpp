// The files of the timing cache: a damaged one is moved aside, so that a new one can be begun in its place.
#pragma once

#include <string>

namespace peri::tune {

// The cache's file in its folder.
constexpr const char* kTimingsFile = "/timings.sqlite";
// What the name of the file that is moved aside ends in.
constexpr const char* kDamagedTail = ".damaged";

// Whether a result code of SQLite says that the file's content is wrong; a lock, a full disk or a file that only may be
// read are something else.
bool says_damage(int code);

// Moves `file`, and what SQLite keeps beside it, to its name with kDamagedTail, in place of an earlier one; "" or that
// name. "": the file that has the name now is whole, is gone, or cannot be moved or judged. Processes that find the
// same damage move it once.
std::string set_aside(const std::string& file);

}  // namespace peri::tune
