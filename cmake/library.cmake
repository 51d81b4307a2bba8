# libtelechir: everything a program links.
# What is exported is what the public headers declare: everything else is hidden by visibility.
set(telechir_objects $<TARGET_OBJECTS:tc_llhttp>)
foreach(module base plat proto wire loop net client env store session llm harness_sched harness)
  if(TARGET tc_${module})
    list(APPEND telechir_objects $<TARGET_OBJECTS:tc_${module}>)
  endif()
endforeach()
find_package(OpenSSL REQUIRED)
find_package(CURL REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(Threads REQUIRED)
find_library(TC_LIBUV_SHARED NAMES uv REQUIRED) # the static one may not be fit for a shared library
foreach(kind SHARED STATIC)
  string(TOLOWER ${kind} suffix)
  add_library(telechir_${suffix} ${kind} ${telechir_objects})
  target_link_libraries(telechir_${suffix} PRIVATE tc_flags
    ${TC_LIBUV_SHARED} CURL::libcurl SQLite::SQLite3 OpenSSL::SSL OpenSSL::Crypto Threads::Threads ${CMAKE_DL_LIBS})
  target_include_directories(telechir_${suffix} PUBLIC ${CMAKE_SOURCE_DIR}/include)
  set_target_properties(telechir_${suffix} PROPERTIES OUTPUT_NAME telechir LINKER_LANGUAGE C)
endforeach()
set_target_properties(telechir_shared PROPERTIES VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR})
