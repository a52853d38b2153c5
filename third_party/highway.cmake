# Highway 1.2.0: portable SIMD. Distributions of 2023 carry 1.0.x, which lacks u8 TableLookupLanes,
# TwoTablesLookupLanes and SumOfMulQuadAccumulate, so the pinned source is built here.
include(FetchContent)
set(ECMV_HIGHWAY_SHA256 7e0be78b8318e8bdbf6fa545d2ecb4c90f947df03f7aadc42c1967f019e63343)
set(ECMV_HIGHWAY_TARBALL ${CMAKE_SOURCE_DIR}/third_party/cache/highway-1.2.0.tar.gz)
set(HWY_ENABLE_TESTS OFF CACHE BOOL "" FORCE)
set(HWY_ENABLE_EXAMPLES OFF CACHE BOOL "" FORCE)
set(HWY_ENABLE_CONTRIB OFF CACHE BOOL "" FORCE)
set(HWY_ENABLE_INSTALL OFF CACHE BOOL "" FORCE)
set(BUILD_TESTING OFF CACHE BOOL "" FORCE)
set(HWY_FORCE_STATIC_LIBS ON CACHE BOOL "" FORCE)
FetchContent_Declare(highway URL ${ECMV_HIGHWAY_TARBALL} URL_HASH SHA256=${ECMV_HIGHWAY_SHA256})
FetchContent_MakeAvailable(highway)
