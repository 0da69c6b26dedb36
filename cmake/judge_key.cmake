# Run by the build (cmake -P): writes OUT, the key of what judges in MODULE: a hash of all files of the modules OF and of FLAGS.
# Takes SRC (the folder src), MODULE, OF, FLAGS.

cmake_minimum_required(VERSION 3.25)

set(text "${FLAGS}")
foreach(of IN LISTS OF)
  file(GLOB_RECURSE files RELATIVE "${SRC}" "${SRC}/${of}/*.*")
  foreach(file IN LISTS files)
    file(SHA256 "${SRC}/${file}" hash)
    string(APPEND text " ${file} ${hash}")
  endforeach()
endforeach()
string(SHA256 key "${text}")
string(SUBSTRING "${key}" 0 16 key)

file(CONFIGURE OUTPUT "${OUT}" @ONLY CONTENT
"// Made by the build from the sources that a verdict hangs on: their key.
#include \"${MODULE}/judge_key.hpp\"

namespace peri::${MODULE} {
std::string_view judge_key() { return \"${key}\"; }
}  // namespace peri::${MODULE}
")
