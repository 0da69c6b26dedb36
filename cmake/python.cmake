# The Python package peri, as a wheel holds it, in build/python/peri: its own files, the native half (nanobind over libperi.so)
# and stubs. For the Python of .venv; tools/pack/wheel.py makes the wheel of it.
set(PERI_VENV_PYTHON "${CMAKE_SOURCE_DIR}/.venv/bin/python")
execute_process(COMMAND "${PERI_VENV_PYTHON}" -c "
import sysconfig, nanobind, pathlib
print(sysconfig.get_paths()['include'], sysconfig.get_config_var('EXT_SUFFIX'), pathlib.Path(nanobind.__file__).parent, sep=';')"
  OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "nanobind is missing in .venv: run ./dev setup")
endif()
list(GET found 0 python_include)
list(GET found 1 python_suffix)
list(GET found 2 nanobind)
if(NOT EXISTS "${python_include}/Python.h")
  message(FATAL_ERROR "${python_include}/Python.h is missing: run ./dev setup")
endif()

set(package "${CMAKE_BINARY_DIR}/python/peri")
add_library(peri_nanobind STATIC "${nanobind}/src/nb_combined.cpp")
target_include_directories(peri_nanobind SYSTEM PUBLIC "${nanobind}/include" "${python_include}"
                           PRIVATE "${nanobind}/ext/robin_map/include")
target_compile_options(peri_nanobind PRIVATE -w -g0 -fno-strict-aliasing)

file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/python/*.cpp")
add_library(peri_python MODULE ${sources})
target_compile_options(peri_python PRIVATE ${PERI_WARNINGS})
target_include_directories(peri_python PRIVATE "${CMAKE_SOURCE_DIR}/src" "${CMAKE_SOURCE_DIR}/include")
target_link_libraries(peri_python PRIVATE peri_nanobind peri_shared)
set_target_properties(peri_python PROPERTIES PREFIX "" OUTPUT_NAME "_native" SUFFIX "${python_suffix}"
                      LIBRARY_OUTPUT_DIRECTORY "${package}")

# Its own files stand there as links would: copied when they change.
file(GLOB files CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/python/peri/*")
list(FILTER files EXCLUDE REGEX "__pycache__")
set(copies "")
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  add_custom_command(OUTPUT "${package}/${name}" COMMAND ${CMAKE_COMMAND} -E copy "${file}" "${package}/${name}"
                     DEPENDS "${file}" VERBATIM)
  list(APPEND copies "${package}/${name}")
endforeach()
add_custom_command(OUTPUT "${package}/_native.pyi"
  COMMAND ${CMAKE_COMMAND} -E env "PYTHONPATH=${CMAKE_BINARY_DIR}/python" "${PERI_VENV_PYTHON}" -B -m nanobind.stubgen
          -m peri._native -o "${package}/_native.pyi" -q
  DEPENDS peri_python ${copies} VERBATIM)
add_custom_target(peri_package ALL DEPENDS peri_python ${copies} "${package}/_native.pyi")
