# Catch2 3: the test framework. The distribution's package when it is version 3, else (and when compiling for
# another machine) the pinned source. Gives Catch2::Catch2WithMain and the module Catch.
if(NOT CMAKE_CROSSCOMPILING)
  find_package(Catch2 3 QUIET)
endif()
if(NOT TARGET Catch2::Catch2WithMain)
  ecmv_pinned_source(catch2 source)
  set(CATCH_INSTALL_DOCS OFF CACHE BOOL "" FORCE)
  set(CATCH_INSTALL_EXTRAS OFF CACHE BOOL "" FORCE)
  ecmv_add_pinned(${source} catch2)
  ecmv_system_headers(Catch2)
  list(APPEND CMAKE_MODULE_PATH ${source}/extras)
endif()
include(Catch)
