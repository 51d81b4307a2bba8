# Warnings, sanitizers and the helpers that the modules' build files use.
#
# -Wno-maybe-uninitialized: a ret_ parameter is written exactly when the call returns 0, which GCC cannot
# see through tc_err_set; what it would find, the sanitizer runs find.
add_library(tc_flags INTERFACE)
target_compile_options(tc_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wformat=2
  -Wundef -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wswitch-enum -fno-common
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  target_compile_options(tc_flags INTERFACE -Wno-maybe-uninitialized)
endif()
target_compile_definitions(tc_flags INTERFACE _GNU_SOURCE TC_VERSION="${PROJECT_VERSION}")
target_include_directories(tc_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
if(TC_WERROR)
  target_compile_options(tc_flags INTERFACE -Werror)
endif()
if(TC_TESTS)
  target_compile_definitions(tc_flags INTERFACE TCI_TESTING=1)
endif()

# What every program of a sanitized tree needs, those outside the modules (examples) too.
add_library(tc_sanitizers INTERFACE)
if(TC_SANITIZE)
  target_compile_options(tc_sanitizers INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(tc_sanitizers INTERFACE -fsanitize=address,undefined)
endif()
if(TC_SANITIZE_THREAD)
  target_compile_options(tc_sanitizers INTERFACE -fsanitize=thread)
  target_link_options(tc_sanitizers INTERFACE -fsanitize=thread)
endif()
if(TC_FUZZ)
  target_compile_options(tc_sanitizers INTERFACE -fsanitize=fuzzer-no-link)
endif()
target_link_libraries(tc_flags INTERFACE tc_sanitizers)

# tc_module(name SOURCES a.c b.c DEPENDS base plat LIBS uv)
function(tc_module name)
  cmake_parse_arguments(M "" "" "SOURCES;DEPENDS;LIBS" ${ARGN})
  add_library(tc_${name} STATIC ${M_SOURCES})
  target_link_libraries(tc_${name} PRIVATE tc_flags)
  foreach(dep ${M_DEPENDS})
    target_link_libraries(tc_${name} PUBLIC tc_${dep})
  endforeach()
  target_link_libraries(tc_${name} PUBLIC ${M_LIBS})
endfunction()

# tc_test(name SOURCES test_x.c LIBS tc_base [TIMEOUT 180] [ENV "A=b"]): a cmocka program run by CTest in a
# temporary folder of its own (TC_TEST_DIR, removed and made anew before each run).
function(tc_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;LIBS;ENV" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 180) # of a hopeless wait: a busy machine takes its time
  endif()
  add_executable(${name} ${T_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/lib)
  target_link_libraries(${name} PRIVATE tc_flags ${T_LIBS} cmocka)
  add_test(NAME ${name} COMMAND ${CMAKE_SOURCE_DIR}/tests/lib/in_own_folder
    ${CMAKE_BINARY_DIR}/tmp/${name} $<TARGET_FILE:${name}>)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} ENVIRONMENT "${T_ENV}" LABELS unit)
endfunction()

# tc_fuzz(name SOURCES fuzz_x.c LIBS tc_base CORPUS dir): LLVMFuzzerTestOneInput; with TC_FUZZ a libFuzzer
# program, otherwise a test that replays the corpus.
function(tc_fuzz name)
  cmake_parse_arguments(F "" "CORPUS" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${F_SOURCES})
  target_link_libraries(${name} PRIVATE tc_flags ${F_LIBS})
  if(TC_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/lib/fuzz_replay.c)
    add_test(NAME ${name} COMMAND ${name} ${F_CORPUS})
    set_tests_properties(${name} PROPERTIES TIMEOUT 180 LABELS fuzz)
  endif()
endfunction()
