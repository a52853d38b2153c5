# Libraries that every supported distribution carries in a usable version. A missing one stops the configure step
# with a sentence that names the set-up script. When compiling for another machine (the kernel tests on ARM)
# only header-only libraries exist: they are taken from the host, and whoever uses the others asks if(TARGET ...).

# ecmv_require(TARGET PACKAGE [VERSION]): find_package that ends in a sentence. Sets PACKAGE_VERSION for the run record.
function(ecmv_require target package)
  find_package(${package} ${ARGN} QUIET)
  set(${package}_VERSION ${${package}_VERSION} PARENT_SCOPE)
  if(NOT TARGET ${target})
    message(FATAL_ERROR "The library ${package} was not found (no CMake target ${target}): "
                        "run third_party/install.sh, which installs everything that is missing.")
  endif()
endfunction()

# ecmv_host_headers(TARGET FOLDER HEADER): an interface library with only the header folder FOLDER of the host.
# The link keeps the rest of the host's include folder out of a cross compiler's sight.
function(ecmv_host_headers target folder header)
  find_path(ECMV_${folder}_INCLUDE ${folder}/${header} NO_CMAKE_FIND_ROOT_PATH PATHS /usr/include /usr/local/include)
  mark_as_advanced(ECMV_${folder}_INCLUDE)
  if(NOT ECMV_${folder}_INCLUDE)
    message(FATAL_ERROR "The header ${folder}/${header} was not found: "
                        "run third_party/install.sh, which installs everything that is missing.")
  endif()
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/host_headers)
  file(CREATE_LINK ${ECMV_${folder}_INCLUDE}/${folder} ${CMAKE_BINARY_DIR}/host_headers/${folder} SYMBOLIC)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} INTERFACE ${CMAKE_BINARY_DIR}/host_headers)
endfunction()

# ecmv_require_library(TARGET HEADER LIBRARY): for libraries whose packages bring no CMake files.
function(ecmv_require_library target header library)
  string(MAKE_C_IDENTIFIER ECMV_${library} id)
  find_path(${id}_INCLUDE ${header})
  find_library(${id}_LIBRARY ${library})
  mark_as_advanced(${id}_INCLUDE ${id}_LIBRARY)
  if(NOT ${id}_INCLUDE OR NOT ${id}_LIBRARY)
    message(FATAL_ERROR "The library ${library} with its header ${header} was not found: "
                        "run third_party/install.sh, which installs everything that is missing.")
  endif()
  add_library(${target} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${${id}_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${${id}_INCLUDE})
endfunction()

ecmv_host_headers(Random123::Random123 Random123 philox.h)
if(CMAKE_CROSSCOMPILING)
  ecmv_host_headers(nlohmann_json::nlohmann_json nlohmann json.hpp)
  return()
endif()

ecmv_require(nlohmann_json::nlohmann_json nlohmann_json 3.9)
ecmv_require(fmt::fmt fmt)
ecmv_require(CLI11::CLI11 CLI11)
ecmv_require(benchmark::benchmark benchmark)
find_package(yaml-cpp QUIET)
if(TARGET yaml-cpp::yaml-cpp AND NOT TARGET yaml-cpp)   # 0.8 renamed the target
  add_library(yaml-cpp INTERFACE IMPORTED)
  target_link_libraries(yaml-cpp INTERFACE yaml-cpp::yaml-cpp)
endif()
ecmv_require(yaml-cpp yaml-cpp)
ecmv_require(ZLIB::ZLIB ZLIB)
ecmv_require(BZip2::BZip2 BZip2)
ecmv_require_library(zstd::zstd zstd.h zstd)
