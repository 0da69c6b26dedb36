// Numbers of bytes as text for people.
#pragma once

#include <cstdint>
#include <string>

namespace peri {

// "122.1 MiB"; less than 1 MiB: "512 bytes".
std::string mib_text(int64_t bytes);

}  // namespace peri
