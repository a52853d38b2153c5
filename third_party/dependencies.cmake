# Every dependency in one place; the rooms only name targets. README.md says what each is for.
include(${CMAKE_CURRENT_LIST_DIR}/pinned.cmake)

# Headers of a target count as system headers: our warnings are not for them.
function(ecmv_system_headers target)
  get_target_property(folders ${target} INTERFACE_INCLUDE_DIRECTORIES)
  set_target_properties(${target} PROPERTIES INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${folders}")
endfunction()

include(${CMAKE_CURRENT_LIST_DIR}/packages.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/highway.cmake)
if(ECMV_BUILD_TESTS AND NOT ECMV_FUZZ)
  include(${CMAKE_CURRENT_LIST_DIR}/catch2.cmake)
endif()
