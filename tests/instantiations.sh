#!/bin/bash
# Counts the functions that each codec's kernel templates compile to, and fails above a bound. The bounds keep the build
# quick: template arguments multiply, and each combination is compiled for every instruction set. Only functions of the
# codec's own namespace count; inlined code shows in the size.
#   tests/instantiations.sh [build]
set -u -o pipefail
build=${1:-build}
codecs=$(dirname "$0")/../codecs
objects=$build/codecs/CMakeFiles/ecmv_codecs.dir
gpu_objects=$build/backends/emulator/CMakeFiles/ecmv_emulator.dir/__/__/codecs

# The rule: only values that the inner loop must know are template arguments, and a combination is compiled only if a
# published record shows a gain. Every other code that the encoder may choose has one kernel a product, or is refused
# with a sentence. Bounds go down, or up for a kernel with a measured gain: 360 for GPUs became 370 with the products of
# more than 64 tokens and 372 with those of symbols of four (codecs/quad_huffman/notes/many_tokens.md, choice.md).
most_cpu=80   # cpu.cpp
most_simd=300 # simd.cpp, all instruction sets together
most_gpu=372  # all *.cu of a codec, for one backend

# Functions of codec $1 in the other arguments, objects.
functions_of() {
  nm --demangle --defined-only "${@:2}" | sed -n "s/^[0-9a-f]* [tTwW] \(.*ecmv::codecs::$1::.*\)/\1/p" |
    sed 's/ \[clone.*//' | sort -u | wc -l
}
kib_of() { size -A "$@" | awk '/^\.text/ { bytes += $2 } END { printf "%d", bytes / 1024 }'; }

above=()
column() {  # codec, bound, objects
  if [ ! -f "$3" ]; then
    printf ' %16s' -
    return
  fi
  local count objects=()
  for object in "${@:3}"; do [ ! -f "$object" ] || objects+=("$object"); done
  count=$(functions_of "$1" "${objects[@]}")
  printf ' %7d %4d KiB' "$count" "$(kib_of "${objects[@]}")"
  [ "$count" -le "$2" ] || above+=("$1: $count functions in ${objects[*]}, at most $2 are allowed")
}

seen=0
printf '%-22s %16s %16s %16s\n' 'kernel functions' "cpu (<= $most_cpu)" "simd (<= $most_simd)" "gpu (<= $most_gpu)"
for folder in "$codecs"/*/; do
  id=$(basename "$folder")
  [ -f "$objects/$id/cpu.cpp.o" ] || [ -f "$objects/$id/simd.cpp.o" ] || [ -f "$gpu_objects/$id/gpu.cu.o" ] || continue
  printf '%-22s' "$id"
  column "$id" $most_cpu "$objects/$id/cpu.cpp.o"
  column "$id" $most_simd "$objects/$id/simd.cpp.o"
  column "$id" $most_gpu "$gpu_objects/$id"/*.cu.o "$gpu_objects/$id"/gpu/*.cu.o
  echo
  seen=$((seen + 1))
done
if ((seen == 0)); then
  echo "No kernel's object lies in $build: build it first."
  exit 1
fi
if ((${#above[@]})); then
  printf 'Too many: %s\n' "${above[@]}"
  exit 1
fi
