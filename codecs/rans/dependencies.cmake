# GCC packs independent states into vectors and pays for moving them to and fro: 0.35 against 0.44 G elements/s at 8
# lanes.
set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/rans/cpu.cpp PROPERTIES COMPILE_OPTIONS -fno-tree-slp-vectorize)
