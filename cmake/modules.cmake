# Modules in the order of LAYERS: library peri_<module> of every *.cpp below src/<module>, linked to all lower levels.
# In an entry folder the folder is the list: <module>_list.cpp gathers `extern const Entry <stem>_entry`.

# Which folders hold entries (not their subfolders), by module.
set(PERI_ENTRIES_ops ops)
set(PERI_ENTRIES_passes passes)
set(PERI_ENTRIES_exec exec)
set(PERI_ENTRIES_cli cli)
set(PERI_ENTRIES_hf hf/arch)
set(PERI_ENTRIES_kernels kernels/cpu kernels/cuda kernels/vendor)

# Which module may see which third-party part.
set(PERI_PARTS_base json xxhash zlib)
set(PERI_PARTS_plan flatbuffers)
set(PERI_PARTS_onnx onnx_proto)
set(PERI_PARTS_kernels dnnl)
set(PERI_PARTS_exec dnnl)
set(PERI_PARTS_tune sqlite)
set(PERI_PARTS_serve boost grpc kserve_proto openssl yaml)
set(PERI_PARTS_cli png jpeg)

add_library(peri_settings INTERFACE)
target_include_directories(peri_settings INTERFACE "${CMAKE_SOURCE_DIR}/src" "${CMAKE_SOURCE_DIR}/include" "${PERI_GEN}")

# A file of an entry folder is an entry, unless it is main.cpp, has a header of its own beside it, or is for one ISA.
function(peri_is_entry file out)
  get_filename_component(stem "${file}" NAME_WE)
  get_filename_component(folder "${file}" DIRECTORY)
  set(${out} TRUE PARENT_SCOPE)
  if(stem STREQUAL "main" OR EXISTS "${folder}/${stem}.hpp" OR stem MATCHES "_avx(2|512|512bf16)$")
    set(${out} FALSE PARENT_SCOPE)
  endif()
endfunction()

# Modules whose sources a verdict about an engine as a whole depends on; of a candidate: trial_roots.cmake.
set(PERI_JUDGE_OF_judge base device exec ir judge kernels ops plan problem runtime stats tune)

# peri_key_flags(OUT): the compiler and its flags, as keys of sources name them.
function(peri_key_flags out)
  get_property(options DIRECTORY PROPERTY COMPILE_OPTIONS)
  list(FILTER options EXCLUDE REGEX "prefix-map")  # the place of a checkout changes nothing
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  set(${out} "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}} ${options}"
      "${PERI_LOOP_OPTIONS}" "${PERI_ISA_OPTIONS}" "${PERI_ISA_avx2}" "${PERI_ISA_avx512}" "${PERI_ISA_avx512vnni}" "${PERI_ISA_amx}" "${PERI_ISA_avx512bf16}"
      PARENT_SCOPE)
endfunction()

# peri_judge_key(MODULE OUT): writes gen/MODULE_judge_key.cpp and names it in OUT, if the module judges. Made anew when a
# source of PERI_JUDGE_OF_<MODULE> or a flag changes.
function(peri_judge_key module out)
  set(${out} "" PARENT_SCOPE)
  if(NOT DEFINED PERI_JUDGE_OF_${module} OR NOT EXISTS "${CMAKE_SOURCE_DIR}/src/${module}/judge_key.hpp")
    return()
  endif()
  set(sources "")
  foreach(of IN LISTS PERI_JUDGE_OF_${module})
    file(GLOB_RECURSE part CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${of}/*.*")
    list(APPEND sources ${part})
  endforeach()
  peri_key_flags(flags)
  set(made "${PERI_GEN}/${module}_judge_key.cpp")
  file(CONFIGURE OUTPUT "${PERI_GEN}/${module}_judge_key.cmake" @ONLY CONTENT
"set(OUT [==[${made}]==])
set(SRC [==[${CMAKE_SOURCE_DIR}/src]==])
set(MODULE ${module})
set(OF [==[${PERI_JUDGE_OF_${module}}]==])
set(FLAGS [==[${flags}]==])
include([==[${CMAKE_SOURCE_DIR}/cmake/judge_key.cmake]==])
")
  add_custom_command(OUTPUT "${made}" COMMAND ${CMAKE_COMMAND} -P "${PERI_GEN}/${module}_judge_key.cmake"
    DEPENDS ${sources} "${PERI_GEN}/${module}_judge_key.cmake" "${CMAKE_SOURCE_DIR}/cmake/judge_key.cmake"
    COMMENT "Key of what judges in src/${module}" VERBATIM)
  set(${out} "${made}" PARENT_SCOPE)
endfunction()

# peri_trial_keys(OUT): writes gen/tune_judge_key.cpp and names it in OUT. Made anew when a source of a module of
# trial_roots.cmake or a flag changes.
function(peri_trial_keys out)
  include("${CMAKE_SOURCE_DIR}/cmake/trial_roots.cmake")
  set(sources "")
  foreach(module IN LISTS PERI_TRIAL_MODULES)
    file(GLOB_RECURSE part CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${module}/*.*")
    list(APPEND sources ${part})
  endforeach()
  set(executors "")
  file(GLOB files CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/exec/*.cpp")
  foreach(file IN LISTS files)
    peri_is_entry("${file}" is_entry)
    if(is_entry)
      list(APPEND executors "${file}")
    endif()
  endforeach()
  peri_key_flags(flags)
  set(made "${PERI_GEN}/tune_judge_key.cpp")
  set(scripts "")
  foreach(script IN ITEMS trial_keys trial_roots closure)
    list(APPEND scripts "${CMAKE_SOURCE_DIR}/cmake/${script}.cmake")
  endforeach()
  file(CONFIGURE OUTPUT "${PERI_GEN}/trial_keys.cmake" @ONLY CONTENT
"set(OUT [==[${made}]==])
set(SRC [==[${CMAKE_SOURCE_DIR}/src]==])
set(EXECUTORS [==[${executors}]==])
set(FLAGS [==[${flags}]==])
include([==[${CMAKE_SOURCE_DIR}/cmake/trial_keys.cmake]==])
")
  add_custom_command(OUTPUT "${made}" COMMAND ${CMAKE_COMMAND} -P "${PERI_GEN}/trial_keys.cmake"
    DEPENDS ${sources} "${PERI_GEN}/trial_keys.cmake" ${scripts} COMMENT "Keys of what judges candidates" VERBATIM)
  set(${out} "${made}" PARENT_SCOPE)
endfunction()

# peri_source_keys(MODULE ENTRIES): gen/MODULE_keys.cpp, made anew when a source of the module or a flag changes.
function(peri_source_keys module entries)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${module}/*.cpp" "${CMAKE_SOURCE_DIR}/src/${module}/*.hpp"
       "${CMAKE_SOURCE_DIR}/src/${module}/*.def")
  file(GLOB also "${CMAKE_SOURCE_DIR}/src/base/thread_pool.?pp")
  peri_key_flags(flags)
  set(out "${PERI_GEN}/${module}_keys.cpp")
  set(arguments "set(OUT [==[${out}]==])\nset(SRC [==[${CMAKE_SOURCE_DIR}/src]==])\nset(MODULE ${module})\n"
      "set(FOLDERS [==[${PERI_ENTRIES_${module}}]==])\nset(ENTRIES [==[${entries}]==])\nset(ALSO [==[${also}]==])\n"
      "set(FLAGS [==[${flags}]==])\ninclude([==[${CMAKE_SOURCE_DIR}/cmake/source_keys.cmake]==])\n")
  string(JOIN "" arguments ${arguments})
  file(CONFIGURE OUTPUT "${PERI_GEN}/${module}_keys.cmake" CONTENT "${arguments}" @ONLY)
  add_custom_command(OUTPUT "${out}" COMMAND ${CMAKE_COMMAND} -P "${PERI_GEN}/${module}_keys.cmake"
    DEPENDS ${sources} ${also} "${PERI_GEN}/${module}_keys.cmake" "${CMAKE_SOURCE_DIR}/cmake/source_keys.cmake"
            "${CMAKE_SOURCE_DIR}/cmake/closure.cmake"
    COMMENT "Keys of the sources of src/${module}" VERBATIM)
endfunction()

# peri_entry_list(MODULE OUT): writes gen/MODULE_list.cpp and names it in OUT, if the module has entries.
function(peri_entry_list module out)
  set(${out} "" PARENT_SCOPE)
  if(NOT DEFINED PERI_ENTRIES_${module} OR NOT EXISTS "${CMAKE_SOURCE_DIR}/src/${module}/entry.hpp")
    return()
  endif()
  set(declarations "")
  set(rows "")
  set(entries "")
  foreach(folder IN LISTS PERI_ENTRIES_${module})
    file(GLOB files CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${folder}/*.cpp")
    file(GLOB headers CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${folder}/*.hpp")
    foreach(file IN LISTS files)
      peri_is_entry("${file}" is_entry)
      if(is_entry)
        get_filename_component(stem "${file}" NAME_WE)
        string(APPEND declarations "extern const Entry ${stem}_entry;\n")
        string(APPEND rows "    &${stem}_entry,\n")
        list(APPEND entries "${file}")
      endif()
    endforeach()
  endforeach()
  file(CONFIGURE OUTPUT "${PERI_GEN}/${module}_list.cpp" @ONLY CONTENT
"// Made by the build from the files of the entry folders: every entry, in the order of their names.
#include \"${module}/entry.hpp\"

#include <span>

namespace peri::${module} {
${declarations}
static const Entry* const kEntries[] = {
${rows}    nullptr,
};

std::span<const Entry* const> entries() { return {kEntries, sizeof(kEntries) / sizeof(kEntries[0]) - 1}; }
}  // namespace peri::${module}
")
  set(${out} "${PERI_GEN}/${module}_list.cpp" PARENT_SCOPE)
  if(EXISTS "${CMAKE_SOURCE_DIR}/src/${module}/source_key.hpp")
    peri_source_keys("${module}" "${entries}")
    set(${out} "${PERI_GEN}/${module}_list.cpp" "${PERI_GEN}/${module}_keys.cpp" PARENT_SCOPE)
  endif()
endfunction()

# With sanitizers -O1 stays: what -O3 unrolls is instrumented many times over.
set(PERI_ISA_OPTIONS -O3 -ffp-contract=fast)
if(PERI_SANITIZE)
  set(PERI_ISA_OPTIONS -O1 -ffp-contract=fast)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # Each access to memory is checked by a call, and what the address sanitizer finds too not twice: depthwise_avx512
    # takes 17 s then, of 83.
    list(APPEND PERI_ISA_OPTIONS -fsanitize-address-outline-instrumentation -fno-sanitize=alignment,null,pointer-overflow,vptr)
  endif()
endif()

# Plain loops, which -O2 of GCC leaves element by element unless their length is known; -O3 would unroll short ones
# first, which then stay so. With the instructions that every machine has.
set(PERI_LOOP_OPTIONS -ftree-loop-vectorize -ftree-slp-vectorize -fvect-cost-model=dynamic -fno-math-errno)

# Flags of sources by ISA. They see no precompiled header: no inline function of the standard library may be
# instantiated with instructions that not every machine has.
function(peri_isa_flags)
  foreach(file IN LISTS ARGN)
    if(file MATCHES "_(avx2|avx512|avx512vnni|avx512bf16|amx)\\.cpp$")
      set_source_files_properties("${file}" PROPERTIES SKIP_PRECOMPILE_HEADERS ON
        COMPILE_OPTIONS "${PERI_ISA_OPTIONS};${PERI_ISA_${CMAKE_MATCH_1}}")
      if(file MATCHES "/typed/loops_")  # roots side by side: nobody asks for errno
        set_property(SOURCE "${file}" APPEND PROPERTY COMPILE_OPTIONS -fno-math-errno)
      endif()
    elseif(file MATCHES "/kernels/cpu/(move/|pool/)?[a-z0-9_]+\\.cpp$" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT PERI_SANITIZE)
      set_source_files_properties("${file}" PROPERTIES
        COMPILE_OPTIONS "${PERI_LOOP_OPTIONS}")
    endif()
  endforeach()
endfunction()

# peri_precompile(TARGET [PCH]): the precompiled header of peri_pch, or of another such target.
function(peri_precompile target)
  if(PERI_PCH)
    set(pch peri_pch ${ARGN})
    list(GET pch -1 pch)
    target_precompile_headers(${target} REUSE_FROM ${pch})
  endif()
endfunction()

set(PERI_PRECOMPILED <algorithm> <cstdint> <functional> <map> <memory> <optional> <span> <string> <string_view>
    <unordered_map> <utility> <vector>)
if(PERI_PCH)
  file(CONFIGURE OUTPUT "${PERI_GEN}/pch.cpp" CONTENT "" @ONLY)
  add_library(peri_pch OBJECT "${PERI_GEN}/pch.cpp")
  target_compile_options(peri_pch PRIVATE ${PERI_WARNINGS})
  target_precompile_headers(peri_pch PRIVATE ${PERI_PRECOMPILED})
  if(PERI_FUZZ)
    # Everything is compiled at once there, and two files of three read this one.
    target_include_directories(peri_pch PRIVATE "${CMAKE_SOURCE_DIR}/src")
    target_precompile_headers(peri_pch PRIVATE "${CMAKE_SOURCE_DIR}/src/ops/entry.hpp")
  endif()
endif()

# peri_module(LEVEL MODULE): the library; MODULES and LEVEL_OF_* grow.
function(peri_module level module)
  string(REPLACE "/" "_" name "${module}")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${module}/*.cpp")
  list(REMOVE_ITEM sources "${CMAKE_SOURCE_DIR}/src/cli/main.cpp")
  peri_entry_list("${module}" list)
  peri_judge_key("${module}" key)
  list(APPEND list ${key})
  if(module STREQUAL "tune")
    peri_trial_keys(key)
    list(APPEND list ${key})
  endif()
  if(NOT sources AND NOT list)
    return()
  endif()
  peri_isa_flags(${sources})
  add_library(peri_${name} STATIC ${sources} ${list})
  target_compile_options(peri_${name} PRIVATE ${PERI_WARNINGS})
  target_link_libraries(peri_${name} PUBLIC peri_settings Threads::Threads)
  foreach(part IN LISTS PERI_PARTS_${module})
    if(part MATCHES "_proto$")
      target_link_libraries(peri_${name} PRIVATE peri_${part})
    else()
      target_link_libraries(peri_${name} PRIVATE peri_part_${part})
    endif()
  endforeach()
  # Higher levels first: a static archive must precede those it takes from.
  set(lower ${PERI_MODULES})
  list(REVERSE lower)
  foreach(other IN LISTS lower)
    if(PERI_LEVEL_${other} LESS level)
      target_link_libraries(peri_${name} PUBLIC peri_${other})
    endif()
  endforeach()
  peri_precompile(peri_${name})
  set(PERI_MODULES ${PERI_MODULES} ${name} PARENT_SCOPE)
  set(PERI_LEVEL_${name} ${level} PARENT_SCOPE)
endfunction()

# FlatBuffers: src/plan/NAME.fbs → gen/plan/NAME_generated.h
file(GLOB schemas CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/plan/*.fbs")
set(PERI_SCHEMA_HEADERS "")
foreach(schema IN LISTS schemas)
  get_filename_component(stem "${schema}" NAME_WE)
  add_custom_command(OUTPUT "${PERI_GEN}/plan/${stem}_generated.h"
    COMMAND ${PERI_FLATC} --cpp --scoped-enums --filename-suffix _generated -o "${PERI_GEN}/plan" "${schema}"
    DEPENDS "${schema}" VERBATIM)
  list(APPEND PERI_SCHEMA_HEADERS "${PERI_GEN}/plan/${stem}_generated.h")
endforeach()
add_custom_target(peri_schemas DEPENDS ${PERI_SCHEMA_HEADERS})

set(PERI_MODULES "")
file(STRINGS "${CMAKE_SOURCE_DIR}/LAYERS" layers REGEX "^[0-9]")
foreach(line IN LISTS layers)
  separate_arguments(words UNIX_COMMAND "${line}")
  list(GET words 0 level)
  list(GET words 1 module)
  if(NOT module STREQUAL "python")  # it sees the library from outside (python.cmake)
    peri_module(${level} ${module})
  endif()
endforeach()
if(TARGET peri_plan)
  add_dependencies(peri_plan peri_schemas)
endif()

set_source_files_properties("${CMAKE_SOURCE_DIR}/src/base/version.cpp" PROPERTIES
  COMPILE_DEFINITIONS "PERI_VERSION=\"${PERI_VERSION}\"")

if(EXISTS "${CMAKE_SOURCE_DIR}/src/cli/main.cpp")
  add_executable(peri "${CMAKE_SOURCE_DIR}/src/cli/main.cpp")
  target_compile_options(peri PRIVATE ${PERI_WARNINGS})
  target_link_libraries(peri PRIVATE peri_cli)
  peri_precompile(peri)
endif()
