# Highway 1.2.0: portable SIMD. Distributions of 2022-2024 carry 1.0.x, which lacks u8 TableLookupLanes,
# TwoTablesLookupLanes, Expand and SumOfMulQuadAccumulate, so the pinned source is always built here: the same
# SIMD library everywhere, static, without its tests and its contrib folder. Gives the target hwy.
ecmv_pinned_source(highway source)
foreach(off HWY_ENABLE_TESTS HWY_ENABLE_EXAMPLES HWY_ENABLE_CONTRIB HWY_ENABLE_INSTALL BUILD_TESTING)
  set(${off} OFF CACHE BOOL "" FORCE)
endforeach()
set(HWY_FORCE_STATIC_LIBS ON CACHE BOOL "" FORCE)
ecmv_add_pinned(${source} highway)
ecmv_system_headers(hwy)
# Kernels need nothing of its sources but targets and their detection (per_target is for ARM, whose detection asks it).
get_target_property(sources hwy SOURCES)
list(FILTER sources EXCLUDE REGEX "(nanobenchmark|print|timer)\\.cc$")
set_target_properties(hwy PROPERTIES SOURCES "${sources}")
