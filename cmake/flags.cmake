# Compiler, warnings, linker, cache: the same for every target of ours.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

# -ffp-contract=off: the same bits from every compiler; a file by ISA asks for contraction itself (PERI_ISA_*).
# -fPIC: the same objects are in the program, in libperi.a and in libperi.so. Hidden: calls among them stay direct, and only
# what include/peri declares leaves a library.
# -ffile-prefix-map: no path of this machine in the program, and compiler-cache hits from every checkout.
add_compile_options(-pthread -ffunction-sections -fdata-sections -ffp-contract=off
                    -fPIC $<$<COMPILE_LANGUAGE:CXX>:-fvisibility=hidden>
                    "-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=" "-ffile-prefix-map=${CMAKE_BINARY_DIR}/=build/")
# Lines of sources are two thirds of a program; packed, as every debugger and profiler reads them, half of that goes.
add_link_options(-pthread -Wl,--gc-sections -Wl,--compress-debug-sections=zlib)

# Archives name their objects, which lie in the build anyway, in place of a second copy.
foreach(language IN ITEMS C CXX)
  set(CMAKE_${language}_ARCHIVE_CREATE "<CMAKE_AR> qcT <TARGET> <LINK_FLAGS> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_APPEND "<CMAKE_AR> qT <TARGET> <LINK_FLAGS> <OBJECTS>")
endforeach()

# Warnings are for our code only: taken by peri_module() and the tests, not by generated code.
set(PERI_WARNINGS -Wall -Wextra -Werror -Wno-missing-field-initializers -Wno-psabi -Wno-dangling-else)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False alarms of GCC 12 inside libstdc++ and through optional/variant.
  list(APPEND PERI_WARNINGS -Wno-maybe-uninitialized -Wno-restrict -Wno-error=stringop-overflow
       -Wno-error=stringop-overread -Wno-error=array-bounds -Wno-error=free-nonheap-object)
endif()

if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Fields left out of a designated initialiser have their default, as for GCC above; get_temporary_buffer of libstdc++'s
  # own stable_sort is deprecated.
  list(APPEND PERI_WARNINGS -Wno-missing-designated-field-initializers -Wno-deprecated-declarations -Wextra-semi
       -Wimplicit-fallthrough -Wunreachable-code-break -Wshadow-field-in-constructor-modified -Wcomma)
endif()

# PERI_SANITIZE=address,undefined: every finding ends the program. PERI_FUZZ adds coverage for libFuzzer.
if(PERI_SANITIZE)
  # object-size looks for what the address sanitizer finds better, at an eighth of the compile time.
  add_compile_options(-fsanitize=${PERI_SANITIZE} -fno-sanitize=object-size -fno-sanitize-recover=all
                      -fno-omit-frame-pointer -O1)
  add_link_options(-fsanitize=${PERI_SANITIZE})
endif()
if(PERI_FUZZ)
  # A null pointer and one beside its array are what the address sanitizer finds when they are used: checking the pointers
  # themselves too is a twelfth of the compile time. Code that protoc makes from a schema is not what is tested.
  add_compile_options(-fsanitize=fuzzer-no-link -fno-sanitize=null,pointer-overflow)
  set(PERI_GENERATED_OPTIONS -fno-sanitize=all)
endif()

# A source named *_avx2.cpp and so on is compiled for that instruction set and called only after cpuid says so.
set(PERI_ISA_avx2 -mavx2 -mfma -mf16c)
set(PERI_ISA_avx512 ${PERI_ISA_avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq)
set(PERI_ISA_avx512vnni ${PERI_ISA_avx512} -mavx512vnni)
set(PERI_ISA_amx ${PERI_ISA_avx512vnni} -mamx-tile -mamx-int8)
set(PERI_ISA_avx512bf16 ${PERI_ISA_avx512} -mavx512bf16 -mavx512vnni)

find_program(PERI_MOLD mold)
if(PERI_MOLD)
  # What runs at the start stands together, as other linkers have it: else its pages are all over the program.
  add_link_options(-fuse-ld=mold -Wl,-z,keep-text-section-prefix)
endif()

find_program(PERI_CCACHE ccache)
if(PERI_CCACHE)
  set(PERI_CCACHE_ENV CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_NOHASHDIR=1 "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}")
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env ${PERI_CCACHE_ENV} ${PERI_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
