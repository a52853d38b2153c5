# zlib, looked for in third_party/packages.cmake; not there when compiling for another machine.
if(TARGET ZLIB::ZLIB)
  set(ECMV_CODEC_LIBRARIES ZLIB::ZLIB)
else()
  set(ECMV_CODEC_MISSING "zlib was not found (package zlib1g-dev)")
endif()
