# Run by the build (cmake -P): writes OUT, the keys of tune/judge_key.hpp: for each of EXECUTORS (files of src/exec) one that
# changes when it does, or what trial_roots.cmake names, or FLAGS. Takes SRC (the folder src), EXECUTORS, FLAGS, and NAMES: a
# file to which the sources of each key are written too, or nothing.

cmake_minimum_required(VERSION 3.25)

include("${CMAKE_CURRENT_LIST_DIR}/trial_roots.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/closure.cmake")

set(MODULES "${PERI_TRIAL_MODULES}")
set(STOPS "${PERI_TRIAL_STOPS}")

# files_of(OUT ROOTS...)
function(files_of out)
  set(files "")
  foreach(root IN LISTS ARGN)
    file(GLOB found "${SRC}/${root}")
    if(NOT found)
      message(FATAL_ERROR "trial_roots.cmake names src/${root}, which does not exist")
    endif()
    list(APPEND files ${found})
  endforeach()
  set(${out} "${files}" PARENT_SCOPE)
endfunction()

set(rows "")
set(names "")
files_of(roots ${PERI_TRIAL_ROOTS})
foreach(executor IN LISTS EXECUTORS)
  closure_of(closure ${roots} "${executor}")
  key_of(key ${closure})
  get_filename_component(stem "${executor}" NAME_WE)
  string(APPEND rows "    {\"${stem}\", \"${key}\"},\n")
  string(APPEND names "${stem} ${closure}\n")
endforeach()
files_of(roots ${PERI_CROSSING_ROOTS})
closure_of(closure ${roots})
key_of(crossing ${closure})
string(APPEND names "crossing ${closure}\n")
if(NAMES)
  file(WRITE "${NAMES}" "${names}")
endif()

file(CONFIGURE OUTPUT "${OUT}" @ONLY CONTENT
"// Made by the build from the sources that a verdict of a candidate depends on: their keys.
#include \"tune/judge_key.hpp\"

namespace peri::tune {
namespace {
struct Row {
  std::string_view executor, key;
};
constexpr Row kKeys[] = {
${rows}    {\"\", \"\"},
};
}  // namespace

std::string_view judge_key(std::string_view executor) {
  for (const Row& row : kKeys)
    if (row.executor == executor) return row.key;
  return \"\";
}
std::string_view crossing_key() { return \"${crossing}\"; }
}  // namespace peri::tune
")
