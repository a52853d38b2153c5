# libzstd, looked for in third_party/packages.cmake; not there when compiling for another machine.
if(TARGET zstd::zstd)
  set(ECMV_CODEC_LIBRARIES zstd::zstd)
else()
  set(ECMV_CODEC_MISSING "libzstd was not found (package libzstd-dev)")
endif()
