# Pinned source tarballs: ecmv_pinned_source(NAME OUT) unpacks the tarball of pins.txt below the build folder
# and sets OUT to its source folder. The tarball comes from third_party/cache when its SHA-256 is right, else
# from upstream. FetchContent is not used: it re-runs a sub-build at every configure and, when told to stay
# disconnected, succeeds without the source.
# As a script, `cmake -DNAME=highway -P third_party/pinned.cmake` only fills the cache.

set(ECMV_THIRD_PARTY ${CMAKE_CURRENT_LIST_DIR})

# Sets OUT to the verified tarball in the cache folder, downloading it when needed; stops with a sentence if it cannot.
function(ecmv_pinned_tarball name out version_out)
  file(STRINGS ${ECMV_THIRD_PARTY}/pins.txt pin REGEX "^${name} ")
  string(REPLACE " " ";" pin "${pin}")
  list(LENGTH pin fields)
  if(NOT fields EQUAL 4)
    message(FATAL_ERROR "third_party/pins.txt has no line 'name version sha256 address' for ${name}.")
  endif()
  list(GET pin 1 version)
  list(GET pin 2 expected)
  list(GET pin 3 address)
  set(tarball ${ECMV_THIRD_PARTY}/cache/${name}-${version}.tar.gz)
  set(${out} ${tarball} PARENT_SCOPE)
  set(${version_out} ${version} PARENT_SCOPE)
  if(EXISTS ${tarball})
    file(SHA256 ${tarball} actual)
    if(actual STREQUAL expected)
      return()
    endif()
    message(STATUS "${tarball} is not the pinned file; it is downloaded again.")
  endif()

  # The temporary name keeps an interrupted download from ever being taken for the tarball.
  string(RANDOM LENGTH 8 suffix)
  message(STATUS "Downloading ${name} ${version} from upstream")
  file(DOWNLOAD ${address} ${tarball}.${suffix} STATUS status INACTIVITY_TIMEOUT 30 TLS_VERIFY ON)
  list(GET status 0 code)
  list(GET status 1 reason)
  if(code EQUAL 0)
    file(SHA256 ${tarball}.${suffix} actual)
    if(actual STREQUAL expected)
      file(RENAME ${tarball}.${suffix} ${tarball})
      return()
    endif()
    set(reason "what arrived has another SHA-256")
  endif()
  file(REMOVE ${tarball}.${suffix})
  message(FATAL_ERROR "The source of ${name} ${version} is neither in third_party/cache nor could it be downloaded "
                      "(${reason}): run third_party/install.sh with a network, or put ${address} "
                      "(SHA-256 ${expected}) there as ${name}-${version}.tar.gz.")
endfunction()

function(ecmv_pinned_source name out)
  ecmv_pinned_tarball(${name} tarball version)
  set(folder ${CMAKE_BINARY_DIR}/pinned/${name}-${version})
  if(NOT IS_DIRECTORY ${folder})
    # Unpacked beside and renamed, so that an interrupted configure leaves no half a source.
    file(REMOVE_RECURSE ${folder}.part)
    file(ARCHIVE_EXTRACT INPUT ${tarball} DESTINATION ${folder}.part)
    file(RENAME ${folder}.part ${folder})
  endif()
  file(GLOB source LIST_DIRECTORIES true ${folder}/*)
  set(${out} ${source} PARENT_SCOPE)
endfunction()

# Adds such a source as a subdirectory. What newer versions of CMake deprecate in it is not ours to mend.
function(ecmv_add_pinned source name)
  if(COMMAND cmake_diagnostic)  # CMake 4.4 and newer, by the policy CMP0218
    set(CMAKE_POLICY_DEFAULT_CMP0218 NEW)
    cmake_diagnostic(PUSH)
    cmake_diagnostic(DEMOTE CMD_DEPRECATED IGNORE)
  else()
    set(CMAKE_WARN_DEPRECATED OFF)
  endif()
  add_subdirectory(${source} ${CMAKE_BINARY_DIR}/${name} EXCLUDE_FROM_ALL)
  if(COMMAND cmake_diagnostic)
    cmake_diagnostic(POP)
  endif()
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  ecmv_pinned_tarball(${NAME} tarball version)
endif()
