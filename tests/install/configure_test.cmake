# Claims about the configure step: no warnings, whatever CMake's version, and no Boost without the emulator.
# cmake -DSOURCE=... -DSCRATCH=... -DGENERATOR=... -DCXX=... -P configure_test.cmake
cmake_minimum_required(VERSION 3.22)

# Sets `status` and `errors` (stderr) of a configure step with these options.
function(configure)
  file(REMOVE_RECURSE ${SCRATCH})
  execute_process(
    COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${SCRATCH} -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${CXX}
            -DCMAKE_BUILD_TYPE=Release -DECMV_CUDA=OFF -DECMV_HIP=OFF -DECMV_MPI=OFF --no-warn-unused-cli ${ARGN}
    RESULT_VARIABLE status ERROR_VARIABLE errors OUTPUT_QUIET)
  file(REMOVE_RECURSE ${SCRATCH})
  set(status ${status} PARENT_SCOPE)
  set(errors "${errors}" PARENT_SCOPE)
endfunction()

configure()
if(NOT status EQUAL 0 OR errors MATCHES "[Ww]arning")
  message(SEND_ERROR "Configuring as usual ended with ${status}, and said: ${errors}")
endif()

configure(-DECMV_EMULATOR=OFF -DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON)
if(NOT status EQUAL 0)
  message(SEND_ERROR "Without the emulator nothing needs Boost, but: ${errors}")
endif()

configure(-DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON)
string(REGEX REPLACE "[ \n]+" " " sentence "${errors}")
if(status EQUAL 0 OR NOT sentence MATCHES "-DECMV_EMULATOR=OFF leaves out the emulator, which alone needs it")
  message(SEND_ERROR "Without Boost the emulator must be refused, with what to do: ${status}, ${errors}")
endif()
