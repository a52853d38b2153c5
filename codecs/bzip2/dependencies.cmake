# libbz2, looked for in third_party/packages.cmake; not there when compiling for another machine.
if(TARGET BZip2::BZip2)
  set(ECMV_CODEC_LIBRARIES BZip2::BZip2)
else()
  set(ECMV_CODEC_MISSING "libbz2 was not found (package libbz2-dev)")
endif()
