# cmake --install: bin/peri; lib/libperi.so, and the archive lib/libperi.a of the same objects, with the shared libraries that
# both need or open beside them (protobuf-lite; oneDNN, libgomp); include/peri; what find_package(peri) and pkg-config read.
set(PERI_INSTALLED_SHARED "")
if(PERI_DNNL_LIBRARY MATCHES "\\.so\\.3$")
  list(APPEND PERI_INSTALLED_SHARED "${PERI_DNNL_LIBRARY}")
endif()
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libgomp.so.1 OUTPUT_VARIABLE PERI_GOMP
                OUTPUT_STRIP_TRAILING_WHITESPACE)
get_filename_component(PERI_GOMP "${PERI_GOMP}" ABSOLUTE)
list(APPEND PERI_INSTALLED_SHARED "${PERI_GOMP}")
peri_soname("${PERI_PROTOBUF_LITE_SHARED}" PERI_PROTOBUF_SONAME)
get_filename_component(folder "${PERI_PROTOBUF_LITE_SHARED}" DIRECTORY)
list(APPEND PERI_INSTALLED_SHARED "${folder}/${PERI_PROTOBUF_SONAME}")

# libperi.a is one object: the modules and the archives that they need, linked together, in which only the names of libperi.map
# are seen. So it becomes part of a shared library too, and clashes with no other copy of SQLite or zlib.
file(STRINGS src/api/libperi.map names REGEX "^ +peri_[a-z_]+;")
list(TRANSFORM names REPLACE "[ ;]" "")
string(JOIN "\n" names ${names})
file(CONFIGURE OUTPUT "${PERI_GEN}/libperi.names" CONTENT "${names}\n" @ONLY)
set(files "")
foreach(target IN LISTS PERI_LIBRARY_ARCHIVES)
  string(APPEND files " $<TARGET_FILE:${target}>")
endforeach()
foreach(part xxhash zlib sqlite)
  if(PERI_${part}_LIBRARY MATCHES "\\.a$")
    string(APPEND files " ${PERI_${part}_LIBRARY}")
  endif()
endforeach()
file(GENERATE OUTPUT "${PERI_GEN}/libperi.files" CONTENT
  "--whole-archive $<TARGET_FILE:peri_api> --no-whole-archive --start-group${files} --end-group\n")

install(CODE "
  file(REMOVE \"${PERI_GEN}/libperi.a\")
  foreach(command IN ITEMS
      \"${CMAKE_LINKER};-r;--force-group-allocation;-o;libperi.o;@libperi.files\"
      \"${CMAKE_OBJCOPY};--strip-debug;--keep-global-symbols=libperi.names;libperi.o\"
      \"${CMAKE_AR};rcsD;libperi.a;libperi.o\")
    execute_process(COMMAND \${command} WORKING_DIRECTORY \"${PERI_GEN}\" COMMAND_ERROR_IS_FATAL ANY)
  endforeach()")
install(FILES "${PERI_GEN}/libperi.a" DESTINATION lib)
install(TARGETS peri_shared LIBRARY DESTINATION lib)
foreach(library IN LISTS PERI_INSTALLED_SHARED)
  get_filename_component(name "${library}" NAME)
  get_filename_component(real "${library}" REALPATH)
  install(PROGRAMS "${real}" DESTINATION lib RENAME "${name}")
endforeach()
install(DIRECTORY "${CMAKE_SOURCE_DIR}/include/" DESTINATION include)
install(FILES "${CMAKE_SOURCE_DIR}/LICENSE" DESTINATION share/doc/peri)
if(TARGET peri)
  set_target_properties(peri PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
  install(TARGETS peri RUNTIME DESTINATION bin)
endif()

include(CMakePackageConfigHelpers)
foreach(name IN ITEMS peri peri-static)
  configure_file(cmake/${name}.pc.in "${PERI_GEN}/${name}.pc" @ONLY)
  install(FILES "${PERI_GEN}/${name}.pc" DESTINATION lib/pkgconfig)
endforeach()
configure_file(cmake/periConfig.cmake.in "${PERI_GEN}/periConfig.cmake" @ONLY)
write_basic_package_version_file("${PERI_GEN}/periConfigVersion.cmake" COMPATIBILITY SameMajorVersion)
install(FILES "${PERI_GEN}/periConfig.cmake" "${PERI_GEN}/periConfigVersion.cmake" DESTINATION lib/cmake/peri)
