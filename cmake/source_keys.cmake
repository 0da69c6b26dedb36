# Run by the build (cmake -P): writes OUT, a key for each entry of MODULE. A key changes when the entry's own file does,
# or what it includes of src/MODULE (of a folder that holds no entries: all of it), the files of ALSO, or FLAGS.
# Takes SRC (the folder src), MODULE, FOLDERS (those of entries, below src), ENTRIES (files, in their order), ALSO, FLAGS.

cmake_minimum_required(VERSION 3.25)

# includes_of(FILE OUT): what FILE includes of the module, and what belongs to it: all of a folder, or the sources of one name.
function(includes_of file out)
  get_property(known GLOBAL PROPERTY "includes ${file}" SET)
  if(NOT known)
    file(STRINGS "${file}" lines REGEX "^#include \"${MODULE}/")
    set(found "")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" header "${line}")
      get_filename_component(folder "${header}" DIRECTORY)
      if(folder IN_LIST FOLDERS OR folder STREQUAL MODULE)
        string(REGEX REPLACE "\\.hpp$" "" stem "${header}")
        file(GLOB part "${SRC}/${stem}.hpp" "${SRC}/${stem}.cpp" "${SRC}/${stem}_avx*.cpp")
      else()
        file(GLOB part "${SRC}/${folder}/*.hpp" "${SRC}/${folder}/*.cpp")
      endif()
      list(APPEND found ${part})
    endforeach()
    list(REMOVE_DUPLICATES found)
    set_property(GLOBAL PROPERTY "includes ${file}" "${found}")
  endif()
  get_property(found GLOBAL PROPERTY "includes ${file}")
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

function(hash_of file out)
  get_property(known GLOBAL PROPERTY "hash ${file}" SET)
  if(NOT known)
    file(SHA256 "${file}" hash)
    set_property(GLOBAL PROPERTY "hash ${file}" "${hash}")
  endif()
  get_property(hash GLOBAL PROPERTY "hash ${file}")
  set(${out} "${hash}" PARENT_SCOPE)
endfunction()

set(rows "")
foreach(entry IN LISTS ENTRIES)
  set(closure "${entry}" ${ALSO})
  set(open "${entry}")
  while(open)
    list(POP_FRONT open file)
    includes_of("${file}" more)
    foreach(next IN LISTS more)
      if(NOT next IN_LIST closure)
        list(APPEND closure "${next}")
        list(APPEND open "${next}")
      endif()
    endforeach()
  endwhile()
  list(SORT closure)
  set(text "${FLAGS}")
  foreach(file IN LISTS closure)
    hash_of("${file}" hash)
    string(APPEND text " ${hash}")
  endforeach()
  string(SHA256 key "${text}")
  string(SUBSTRING "${key}" 0 16 key)
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
