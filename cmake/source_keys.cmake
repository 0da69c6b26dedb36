# Run by the build (cmake -P): writes OUT, a key for each entry of MODULE. A key changes when the entry's own file does,
# or what it includes of src/MODULE (of a folder that holds no entries: all of it), the files of ALSO, or FLAGS.
# Takes SRC (the folder src), MODULE, FOLDERS (those of entries, below src), ENTRIES (files, in their order), ALSO, FLAGS.

cmake_minimum_required(VERSION 3.25)

include("${CMAKE_CURRENT_LIST_DIR}/closure.cmake")

set(MODULES "${MODULE}")
set(rows "")
foreach(entry IN LISTS ENTRIES)
  closure_of(closure "${entry}" ${ALSO})
  key_of(key ${closure})
  string(APPEND rows "    \"${key}\",\n")
endforeach()

file(CONFIGURE OUTPUT "${OUT}" @ONLY CONTENT
"// Made by the build from the sources of the entries: a key of each, in the order of entries().
#include \"${MODULE}/source_key.hpp\"

namespace peri::${MODULE} {
static constexpr std::string_view kKeys[] = {
${rows}    \"\",
};

std::span<const std::string_view> source_keys() { return {kKeys, sizeof(kKeys) / sizeof(kKeys[0]) - 1}; }
}  // namespace peri::${MODULE}
")
