# Every dependency in one place: one file each, included in the order of need.
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
include(highway)
