// Numbers of bytes as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace peri {

// "122.1 MiB"; below one of them "512 bytes".
std::string mib_text(int64_t bytes);

}  // namespace peri
