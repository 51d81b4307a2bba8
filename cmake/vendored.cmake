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

  # SQLite. Two threads never use one connection at once (THREADSAFE=2). Of the parts it can be built
  # without, those that may be left out of its one file; the rest is dropped with what nobody calls.
  set(sqlite ${TC_VENDOR}/libsqlite3-sys/sqlite3)
  add_library(vendored_sqlite STATIC EXCLUDE_FROM_ALL ${sqlite}/sqlite3.c)
  target_compile_definitions(vendored_sqlite PRIVATE SQLITE_THREADSAFE=2 SQLITE_DQS=0 SQLITE_DEFAULT_MEMSTATUS=0
    SQLITE_OMIT_DEPRECATED SQLITE_OMIT_LOAD_EXTENSION SQLITE_OMIT_PROGRESS_CALLBACK SQLITE_OMIT_SHARED_CACHE
    USE_PREAD HAVE_FDATASYNC=1 HAVE_USLEEP=1 HAVE_GMTIME_R=1 HAVE_LOCALTIME_R=1 HAVE_STRERROR_R=1
    HAVE_ISNAN=1)
  target_compile_options(vendored_sqlite PRIVATE -w -Os "SHELL:-Xclang -Os") # as fast as -O2, and 325 KB less
  target_include_directories(vendored_sqlite SYSTEM PUBLIC ${sqlite})
  add_library(SQLite::SQLite3 ALIAS vendored_sqlite)

  # libcurl: what it is built with is in cmake/curl_config.h. For size: it waits for the network. Each of
  # its files is empty where its part is left out.
  set(curl ${TC_VENDOR}/curl-sys/curl)
  file(GLOB sources ${curl}/lib/*.c ${curl}/lib/*/*.c)
  add_library(vendored_curl STATIC EXCLUDE_FROM_ALL ${sources})
  target_compile_definitions(vendored_curl PRIVATE HAVE_CONFIG_H BUILDING_LIBCURL _GNU_SOURCE PUBLIC CURL_STATICLIB)
  target_include_directories(vendored_curl PRIVATE ${CMAKE_SOURCE_DIR}/cmake ${curl}/lib
    SYSTEM PUBLIC ${curl}/include)
  target_compile_options(vendored_curl PRIVATE -w -Os "SHELL:-Xclang -Os")
  target_include_directories(vendored_curl SYSTEM PRIVATE ${OPENSSL_INCLUDE_DIR})
  target_link_libraries(vendored_curl PUBLIC ${OPENSSL_SSL_LIBRARY} ${OPENSSL_CRYPTO_LIBRARY})
  add_library(CURL::libcurl ALIAS vendored_curl)

  # find_package() looks there first: both are found, as the targets above.
  foreach(package sqlite3 curl)
    file(WRITE ${CMAKE_FIND_PACKAGE_REDIRECTS_DIR}/${package}-config.cmake "")
  endforeach()
endif()
