// Names in commands that a message suggests: as a user must type them in a shell.
#pragma once

#include <string>
#include <string_view>

namespace peri {

// `text` as one word of a command for a POSIX shell: unchanged if no character of it means anything to a shell, else in
// single quotes. What a terminal would interpret, and bytes that are not UTF-8, are written as bash's $'\x1b'.
std::string shell_word(std::string_view text);

}  // namespace peri
