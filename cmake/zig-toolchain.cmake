# Cross compiling with zig, for the presets release-*: the compiler, its C library (musl, linked
# statically) and its archiver are one pinned package that `./dev release` puts under build/tools/.
# Nothing of this machine goes in: no library, no path, no time.
set(TC_ZIG_TARGET "" CACHE STRING "what zig compiles for, such as aarch64-linux-musl")
set(TC_ZIG "${CMAKE_CURRENT_LIST_DIR}/../build/tools/zig/zig" CACHE FILEPATH "the zig program")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TC_ZIG_TARGET TC_ZIG)
# zig compiles its C library once for each way of linking: there is one way, and questions to the
# compiler link nothing.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_FLAGS_INIT "-O2 -fstack-protector-strong")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static -s -Wl,--gc-sections")

string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR "${TC_ZIG_TARGET}")
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_C_COMPILER "${TC_ZIG}" cc -target ${TC_ZIG_TARGET})
set(CMAKE_C_ARCHIVE_CREATE "\"${TC_ZIG}\" ar qcD <TARGET> <OBJECTS>")
set(CMAKE_C_ARCHIVE_APPEND "\"${TC_ZIG}\" ar qD <TARGET> <OBJECTS>")
set(CMAKE_C_ARCHIVE_FINISH "\"${TC_ZIG}\" ranlib <TARGET>")

# The system's headers and libraries are for another machine.
set(CMAKE_FIND_ROOT_PATH "${CMAKE_CURRENT_LIST_DIR}/../build/third_party")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
