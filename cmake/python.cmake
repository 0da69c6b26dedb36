# The Python package peri, as a wheel holds it, in build/python/peri: its own files, the native half (nanobind over libperi.so)
# and stubs. For the Python of .venv; tools/pack/wheel.py makes the wheel of it.
set(PERI_STABLE_PYTHON "" CACHE FILEPATH
    "A CPython of 3.12 or newer: the package for its stable interface too, in build/python-stable/peri")
set(PERI_VENV_PYTHON "${CMAKE_SOURCE_DIR}/.venv/bin/python")
execute_process(COMMAND "${PERI_VENV_PYTHON}" -c "import nanobind, pathlib; print(pathlib.Path(nanobind.__file__).parent)"
                OUTPUT_VARIABLE PERI_NANOBIND OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "nanobind is missing in .venv: run ./dev setup")
endif()

# peri_python_package(NAME PYTHON FOLDER [DEFINITION...]): the native half and the package's own files, copied when they change;
# COPIES gets the files. With a definition it is for the stable interface.
function(peri_python_package name python folder)
  execute_process(COMMAND "${python}" -c
    "import sysconfig; print(sysconfig.get_paths()['include'], sysconfig.get_config_var('EXT_SUFFIX'), sep=';')"
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  list(GET found 0 include)
  list(GET found 1 suffix)
  if(NOT EXISTS "${include}/Python.h")
    message(FATAL_ERROR "${include}/Python.h is missing: run ./dev setup")
  endif()
  if(ARGN)
    set(suffix .abi3.so)
  endif()
  add_library(${name}_nanobind STATIC "${PERI_NANOBIND}/src/nb_combined.cpp")
  target_compile_definitions(${name}_nanobind PUBLIC ${ARGN})
  target_include_directories(${name}_nanobind SYSTEM PUBLIC "${PERI_NANOBIND}/include" "${include}"
                             PRIVATE "${PERI_NANOBIND}/ext/robin_map/include")
  target_compile_options(${name}_nanobind PRIVATE -w -g0 -fno-strict-aliasing)

  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/python/*.cpp")
  add_library(${name} MODULE ${sources})
  target_compile_options(${name} PRIVATE ${PERI_WARNINGS})
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}/src" "${CMAKE_SOURCE_DIR}/include")
  target_link_libraries(${name} PRIVATE ${name}_nanobind peri_shared)
  set_target_properties(${name} PROPERTIES PREFIX "" OUTPUT_NAME "_native" SUFFIX "${suffix}"
                        LIBRARY_OUTPUT_DIRECTORY "${folder}")

  file(GLOB files CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/python/peri/*")
  list(FILTER files EXCLUDE REGEX "__pycache__")
  set(copies "")
  foreach(file IN LISTS files)
    get_filename_component(own "${file}" NAME)
    add_custom_command(OUTPUT "${folder}/${own}" COMMAND ${CMAKE_COMMAND} -E copy "${file}" "${folder}/${own}"
                       DEPENDS "${file}" VERBATIM)
    list(APPEND copies "${folder}/${own}")
  endforeach()
  set(COPIES ${copies} PARENT_SCOPE)
endfunction()

set(package "${CMAKE_BINARY_DIR}/python/peri")
peri_python_package(peri_python "${PERI_VENV_PYTHON}" "${package}")
add_custom_command(OUTPUT "${package}/_native.pyi"
  COMMAND ${CMAKE_COMMAND} -E env "PYTHONPATH=${CMAKE_BINARY_DIR}/python" "${PERI_VENV_PYTHON}" -B -m nanobind.stubgen
          -m peri._native -o "${package}/_native.pyi" -q
  DEPENDS peri_python ${COPIES} VERBATIM)
add_custom_target(peri_package ALL DEPENDS peri_python ${COPIES} "${package}/_native.pyi")

if(PERI_STABLE_PYTHON)
  execute_process(COMMAND "${PERI_STABLE_PYTHON}" "${CMAKE_SOURCE_DIR}/tools/pack/stable.py"
                  OUTPUT_VARIABLE lacks OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "PERI_STABLE_PYTHON, ${PERI_STABLE_PYTHON}, cannot be used: ${lacks}\n"
                        "Name another, or none: cmake -U PERI_STABLE_PYTHON ${CMAKE_BINARY_DIR}")
  endif()
  set(stable "${CMAKE_BINARY_DIR}/python-stable/peri")
  peri_python_package(peri_python_stable "${PERI_STABLE_PYTHON}" "${stable}" Py_LIMITED_API=0x030C0000)
  add_custom_command(OUTPUT "${stable}/_native.pyi"
    COMMAND ${CMAKE_COMMAND} -E copy "${package}/_native.pyi" "${stable}/_native.pyi"
    DEPENDS "${package}/_native.pyi" peri_python_stable VERBATIM)
  add_custom_target(peri_package_stable ALL DEPENDS peri_python_stable ${COPIES} "${stable}/_native.pyi")
endif()
