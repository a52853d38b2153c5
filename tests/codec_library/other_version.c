/* A library of a later version of ecmv_codec.h. */
#include <stddef.h>

const char* ecmv_codec_library_2(const void* host, const void** library);
const char* ecmv_codec_library_2(const void* host, const void** library) {
  (void)host;
  *library = NULL;
  return NULL;
}
