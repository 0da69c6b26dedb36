// Sizes of memory for people.
#pragma once

#include <string>

namespace peri {

// "97.8 MiB", "1.2 KiB", "12 B".
std::string bytes_text(double bytes);

}  // namespace peri
