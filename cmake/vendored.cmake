# The libraries of a release, compiled from the sources that third_party/ pins and `./dev release`
# unpacks into TC_VENDOR. Defines what the modules' build files would otherwise find on the system.
# OpenSSL has a build system of its own: tools/release.py runs it and hands over TC_OPENSSL.
set(TC_OPENSSL "" CACHE PATH "where OpenSSL's headers and static libraries for this target are")

# Every function is a section, so that the linker drops what nobody calls; no path of the machine
# that built it stays in a message or a debug record.
add_compile_options(-ffunction-sections -fdata-sections -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=
  -ffile-prefix-map=${CMAKE_BINARY_DIR}/= -ffile-prefix-map=${TC_VENDOR}/= -Wno-date-time
  -fno-asynchronous-unwind-tables -fno-unwind-tables)
add_link_options(LINKER:--no-eh-frame-hdr "LINKER:-T,${CMAKE_SOURCE_DIR}/cmake/discard.ld")
# The build that is carried to other machines: for size, the C library excepted. zig takes a plain -Oz for -Os.
if(NOT TC_TLS)
  add_compile_options(-Os -fomit-frame-pointer "SHELL:-Xclang -Oz" "SHELL:-mllvm -enable-machine-outliner=always")
endif()

# libuv, by its own build file.
set(LIBUV_BUILD_SHARED OFF CACHE INTERNAL "")
set(BUILD_TESTING OFF CACHE INTERNAL "")
add_subdirectory(${TC_VENDOR}/libuv-sys2/libuv ${CMAKE_BINARY_DIR}/libuv EXCLUDE_FROM_ALL)
set(TC_LIBUV uv_a CACHE INTERNAL "")
set(TC_LIBUV_SHARED uv_a CACHE INTERNAL "")

# llhttp: src/wire compiles its three files.
set(TC_LLHTTP_SOURCE ${TC_VENDOR}/libgit2-sys/libgit2/deps/llhttp CACHE INTERNAL "")
set(TC_LLHTTP_INCLUDE ${TC_LLHTTP_SOURCE} CACHE INTERNAL "")

# PCRE2, the 8-bit library with Unicode and JIT. Three of its files are parts of others.
set(pcre2 ${TC_VENDOR}/pcre2-sys/upstream)
file(GLOB sources ${pcre2}/src/*.c)
list(FILTER sources EXCLUDE REGEX "/pcre2_(jit_match|jit_misc|ucptables)\\.c$")
if(NOT TC_TLS)
  list(FILTER sources EXCLUDE REGEX "/pcre2_match\\.c$")
  list(APPEND sources ${CMAKE_SOURCE_DIR}/cmake/pcre2_without_interpreter.c)
endif()
add_library(pcre2-8 STATIC EXCLUDE_FROM_ALL ${sources})
target_compile_definitions(pcre2-8 PRIVATE HAVE_CONFIG_H PCRE2_CODE_UNIT_WIDTH=8 SUPPORT_PCRE2_8
  SUPPORT_UNICODE SUPPORT_JIT PUBLIC PCRE2_STATIC)
target_include_directories(pcre2-8 PRIVATE ${pcre2}/src ${pcre2}/deps)
target_include_directories(pcre2-8 SYSTEM PUBLIC ${pcre2}/include)
# For size: what is fast is the code that the JIT writes, not the JIT.
target_compile_options(pcre2-8 PRIVATE -w -Os -fno-inline "SHELL:-Xclang -Os")

if(TC_TLS)
  set(OPENSSL_INCLUDE_DIR ${TC_OPENSSL}/include CACHE INTERNAL "")
  set(OPENSSL_CRYPTO_LIBRARY ${TC_OPENSSL}/libcrypto.a CACHE INTERNAL "")
  set(OPENSSL_SSL_LIBRARY ${TC_OPENSSL}/libssl.a CACHE INTERNAL "")
  add_library(crypto INTERFACE) # the name that src/base links
  target_link_libraries(crypto INTERFACE ${OPENSSL_CRYPTO_LIBRARY})
  target_include_directories(crypto SYSTEM INTERFACE ${OPENSSL_INCLUDE_DIR})
endif()
