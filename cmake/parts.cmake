# Third-party parts, each an interface target that exactly the modules named in modules.cmake link. Static archives are
# preferred, so that the program needs little from the machine it runs on.
find_package(Threads REQUIRED)

# peri_part(NAME HEADER LIBRARY...): target peri_part_NAME; without the header it stays undefined, and a module that
# needs it says so.
function(peri_part name header)
  find_path(PERI_${name}_INCLUDE NAMES ${header})
  add_library(peri_part_${name} INTERFACE)
  if(ARGN)
    find_library(PERI_${name}_LIBRARY NAMES ${ARGN})
    if(PERI_${name}_LIBRARY)
      target_link_libraries(peri_part_${name} INTERFACE ${PERI_${name}_LIBRARY})
    endif()
  endif()
  if(NOT PERI_${name}_INCLUDE OR (ARGN AND NOT PERI_${name}_LIBRARY))
    message(FATAL_ERROR "${name} (${header}) is missing: run ./dev setup")
  endif()
endfunction()

# peri_soname(LIBRARY OUT): the name by which programs ask for a shared library.
function(peri_soname library out)
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p "${library}" OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "SONAME +([^ \n]+)" soname "${dynamic}")
  set(${out} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

peri_part(json nlohmann/json.hpp)
peri_part(xxhash xxhash.h libxxhash.a xxhash)
peri_part(zlib zlib.h libz.a z)
peri_part(png png.h libpng.a png)
target_link_libraries(peri_part_png INTERFACE peri_part_zlib m)
peri_part(jpeg turbojpeg.h libturbojpeg.a turbojpeg)
peri_part(boost boost/beast/version.hpp)
peri_part(openssl openssl/ssl.h libssl.a ssl)
find_library(PERI_crypto_LIBRARY NAMES libcrypto.a crypto REQUIRED)
target_link_libraries(peri_part_openssl INTERFACE ${PERI_crypto_LIBRARY} ${CMAKE_DL_LIBS})
find_library(PERI_zstd_LIBRARY NAMES libzstd.a)  # which Debian 13's libcrypto.a asks for
if(PERI_zstd_LIBRARY)
  target_link_libraries(peri_part_openssl INTERFACE ${PERI_zstd_LIBRARY})
endif()
peri_part(sqlite sqlite3.h libsqlite3.a sqlite3)
target_link_libraries(peri_part_sqlite INTERFACE ${CMAKE_DL_LIBS} m)
peri_part(flatbuffers flatbuffers/flatbuffers.h)
find_program(PERI_FLATC flatc REQUIRED)

# oneDNN: the pinned 3.x of .venv, else the distribution's 2.x. Its headers are compiled in; the library is opened by the
# first kernel that needs it (src/kernels/vendor/library.cpp), where a program's or library's RUNPATH leads.
find_path(PERI_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp PATHS "${CMAKE_SOURCE_DIR}/.venv/include" NO_DEFAULT_PATH)
find_library(PERI_DNNL_LIBRARY NAMES libdnnl.so.3 PATHS "${CMAKE_SOURCE_DIR}/.venv/lib" NO_DEFAULT_PATH)
if(NOT PERI_DNNL_INCLUDE OR NOT PERI_DNNL_LIBRARY)
  find_path(PERI_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp)
  find_library(PERI_DNNL_LIBRARY NAMES dnnl)
endif()
if(NOT PERI_DNNL_INCLUDE OR NOT PERI_DNNL_LIBRARY)
  message(FATAL_ERROR "oneDNN is missing: run ./dev setup")
endif()
add_library(peri_part_dnnl INTERFACE)
target_include_directories(peri_part_dnnl SYSTEM INTERFACE "${PERI_DNNL_INCLUDE}")
target_link_libraries(peri_part_dnnl INTERFACE ${CMAKE_DL_LIBS})
peri_soname("${PERI_DNNL_LIBRARY}" PERI_DNNL_SONAME)
set_source_files_properties("${CMAKE_SOURCE_DIR}/src/kernels/vendor/library.cpp" PROPERTIES
  COMPILE_DEFINITIONS "PERI_ONEDNN_FILE=\"${PERI_DNNL_SONAME}\"")
get_filename_component(folder "${PERI_DNNL_LIBRARY}" DIRECTORY)
list(APPEND CMAKE_BUILD_RPATH "${folder}")

# The ONNX format: C++ made from the definition inside the pinned onnx package, lite runtime, no reflection.
file(GLOB PERI_ONNX_PROTO "${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/onnx/onnx-ml.proto")
find_program(PERI_PROTOC protoc REQUIRED)
find_library(PERI_PROTOBUF_LITE NAMES libprotobuf-lite.a protobuf-lite REQUIRED)
if(NOT PERI_ONNX_PROTO)
  message(FATAL_ERROR "the onnx package is missing in .venv: run ./dev setup")
endif()
set(proto_dir "${PERI_GEN}/onnx_proto")
file(READ "${PERI_ONNX_PROTO}" proto_text)
string(APPEND proto_text "\noption optimize_for = LITE_RUNTIME;\n")
string(REGEX REPLACE "\noption optimize_for = [A-Z_]+;(.*optimize_for)" "\n\\1" proto_text "${proto_text}")
file(CONFIGURE OUTPUT "${proto_dir}/onnx-ml.proto" CONTENT "${proto_text}" @ONLY)
add_custom_command(
  OUTPUT "${proto_dir}/onnx-ml.pb.cc" "${proto_dir}/onnx-ml.pb.h"
  COMMAND ${PERI_PROTOC} "--proto_path=${proto_dir}" "--cpp_out=${proto_dir}" onnx-ml.proto
  DEPENDS "${proto_dir}/onnx-ml.proto" VERBATIM)
add_library(peri_onnx_proto STATIC "${proto_dir}/onnx-ml.pb.cc")
target_compile_options(peri_onnx_proto PRIVATE -O1 -g0 -w ${PERI_GENERATED_OPTIONS})
target_include_directories(peri_onnx_proto SYSTEM PUBLIC "${proto_dir}")
target_link_libraries(peri_onnx_proto PUBLIC ${PERI_PROTOBUF_LITE} Threads::Threads)

# gRPC of `peri serve`, and the messages of KServe v2 (src/serve/grpc/kserve.proto). Where the machine lacks libgrpc++-dev a
# build has no gRPC: this says so, and so does `peri serve --grpc-port`.
add_library(peri_part_grpc INTERFACE)
find_path(PERI_GRPC_INCLUDE grpcpp/grpcpp.h)
find_library(PERI_GRPC_LIBRARY NAMES libgrpc++.a)
find_library(PERI_PROTOBUF NAMES libprotobuf.a protobuf REQUIRED)
if(PERI_GRPC_INCLUDE AND PERI_GRPC_LIBRARY)
  get_filename_component(folder "${PERI_GRPC_LIBRARY}" DIRECTORY)
  file(GLOB archives "${folder}/libabsl_*.a")
  foreach(name IN ITEMS grpc gpr upb address_sorting re2 cares ssl crypto)
    find_library(PERI_GRPC_${name} NAMES lib${name}.a ${name} PATHS "${folder}" REQUIRED)
    list(APPEND archives "${PERI_GRPC_${name}}")
  endforeach()
  string(JOIN "," archives ${PERI_GRPC_LIBRARY} ${archives})
  target_link_libraries(peri_part_grpc INTERFACE "$<LINK_GROUP:RESCAN,${archives}>" ${PERI_zlib_LIBRARY} ${CMAKE_DL_LIBS})
  target_compile_definitions(peri_part_grpc INTERFACE PERI_GRPC)
else()
  message(WARNING "libgrpc++-dev is missing: this build serves no gRPC (./dev setup installs it)")
endif()
set(kserve_proto "${CMAKE_SOURCE_DIR}/src/serve/grpc/kserve.proto")
set(proto_dir "${PERI_GEN}/kserve_proto")
file(MAKE_DIRECTORY "${proto_dir}")
add_custom_command(
  OUTPUT "${proto_dir}/kserve.pb.cc" "${proto_dir}/kserve.pb.h"
  COMMAND ${PERI_PROTOC} "--proto_path=${CMAKE_SOURCE_DIR}/src/serve/grpc" "--cpp_out=${proto_dir}" kserve.proto
  DEPENDS "${kserve_proto}" VERBATIM)
add_library(peri_kserve_proto STATIC "${proto_dir}/kserve.pb.cc")
target_compile_options(peri_kserve_proto PRIVATE -O1 -g0 -w ${PERI_GENERATED_OPTIONS})
target_include_directories(peri_kserve_proto SYSTEM PUBLIC "${proto_dir}")
target_link_libraries(peri_kserve_proto PUBLIC ${PERI_PROTOBUF} Threads::Threads)

# YAML, the other form of a model's configuration.
peri_part(yaml yaml-cpp/yaml.h libyaml-cpp.a yaml-cpp)
