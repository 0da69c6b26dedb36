// Programs inside a test program: started under a name that one has, as through a symbolic link, it is that program.
// What several programs for machines with a GPU are linked from travels there once.
#pragma once

#include <string_view>

namespace peri {

// A main() of its own, with the arguments of the process.
using ProgramMain = int (*)(int count, char** words);
// For a namespace-scope constant; the name is that of the link in bin/.
bool add_program(std::string_view name, ProgramMain main);

}  // namespace peri
