# libperi.so: the modules up to `api` as one shared library that exports the names of src/api/libperi.map alone. Debian's
# protobuf archive is not position-independent, so that library stands beside it, as oneDNN's does.
find_library(PERI_PROTOBUF_LITE_SHARED NAMES libprotobuf-lite.so)
if(NOT PERI_PROTOBUF_LITE_SHARED)
  message(FATAL_ERROR "libprotobuf-lite.so is missing: run ./dev setup")
endif()

# The archives of the libraries.
set(PERI_LIBRARY_ARCHIVES peri_onnx_proto)
foreach(module IN LISTS PERI_MODULES)
  if(NOT module STREQUAL "cli")
    list(APPEND PERI_LIBRARY_ARCHIVES peri_${module})
  endif()
endforeach()

file(CONFIGURE OUTPUT "${PERI_GEN}/libperi.c" CONTENT "" @ONLY)
add_library(peri_shared SHARED "${PERI_GEN}/libperi.c")
set_target_properties(peri_shared PROPERTIES OUTPUT_NAME peri VERSION ${PERI_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib" LINKER_LANGUAGE CXX INSTALL_RPATH "$ORIGIN")
add_dependencies(peri_shared ${PERI_LIBRARY_ARCHIVES})
set(files "")
foreach(archive IN LISTS PERI_LIBRARY_ARCHIVES)
  list(APPEND files $<TARGET_FILE:${archive}>)
endforeach()
set_property(TARGET peri_shared PROPERTY LINK_DEPENDS ${files} "${CMAKE_SOURCE_DIR}/src/api/libperi.map")
target_link_options(peri_shared PRIVATE "-Wl,--version-script=${CMAKE_SOURCE_DIR}/src/api/libperi.map" -Wl,-z,defs)
target_link_libraries(peri_shared PRIVATE -Wl,--whole-archive $<TARGET_FILE:peri_api> -Wl,--no-whole-archive
  -Wl,--start-group ${files} -Wl,--end-group "${PERI_PROTOBUF_LITE_SHARED}"
  "${PERI_xxhash_LIBRARY}" "${PERI_zlib_LIBRARY}" "${PERI_sqlite_LIBRARY}" Threads::Threads ${CMAKE_DL_LIBS} m)
