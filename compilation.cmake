# Makes a build from nothing quick and changes no kernel: cpu.cpp, simd.cpp and *.cu are compiled each by itself, with
# the flags of the build type.
option(ECMV_UNITY "Several sources of a room in one compilation: quick from nothing. OFF: each by itself" ON)

# ecmv_together(TARGET FILES): compiles the target's sources up to FILES at a time, because headers are most of what a
# small source costs. Names in unnamed namespaces must then differ within a room. A source with properties of its own is
# compiled by itself.
function(ecmv_together target files)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ECMV_UNITY} UNITY_BUILD_BATCH_SIZE ${files})
endfunction()

# ecmv_not_timed(TARGET FILES...): optimises a target less when nobody waits for its speed, apart from its sources
# FILES.
function(ecmv_not_timed target)
  target_compile_options(${target} PRIVATE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>")
  if(ARGN)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS "$<$<CONFIG:Release>:-O3>")
  endif()
endfunction()
