// Machine code cached in files, each used only if it is intact and owned by this user.
#pragma once

#include <string>

#include "base/result.hpp"

namespace peri::device::cuda {

struct CachedCode {
  std::string cubin, log;
};
enum class Found { kYes, kNo, kIgnored };
// An entry that is truncated, modified, for another key, or writable by others: kIgnored with the reason in `remark`.
Found read_code(const std::string& folder, const std::string& key, CachedCode* out, std::string* remark);
// "" or why it was not written.
std::string write_code(const std::string& folder, const std::string& key, const CachedCode& code);

}  // namespace peri::device::cuda
