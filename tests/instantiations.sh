#!/bin/bash
# How many functions the kernels of each codec have become, and the bounds that keep the build quick: template arguments multiply, and each
# combination is compiled for every instruction set. Counted are the functions of a codec's own namespace in the objects of a build folder
# (instances of templates mostly; what was inlined counts where it went, in the size of the code). Fails above a bound.
#   tests/instantiations.sh [build]
set -u -o pipefail
build=${1:-build}
codecs=$(dirname "$0")/../codecs
objects=$build/codecs/CMakeFiles/ecmv_codecs.dir
gpu_objects=$build/backends/emulator/CMakeFiles/ecmv_emulator.dir/__/__/codecs

# A codec needs fewer, as a rule. Before raising a bound, look for template arguments of which the inner loop knows nothing.
most_cpu=80     # cpu.cpp
most_simd=330   # simd.cpp, all instruction sets together; quad_huffman has 303: 22 forms, 2 or 3 uses, 6 sets; rans_byte_planes 277: 14 forms in 3 runs, 2 orders of states, 2 uses
most_gpu=960     # all *.cu of a codec, one backend; quad_huffman has 952, some 80 of them parts of tiles that gcc makes functions of since matvec begins tiles in a way of its own: 40 shapes, each with two matvecs, a decoder and its pieces, a chain; 14 with two products of few tokens, 20 with one of one token, 11 with four of more, 4 of bf16 with two of one or two tokens, f8 with seven kernels; fragments of 8 with two products, of bf16 with two more, of 3 with the digits of tokens, and lean lane groups for them; symbols of eight exponents, 2 shapes, with a decoder, a product of float32 and four of fragments; strips of 4 forms with two windows, and of 3 with ordered symbols and rotated ones from two kinds of tables, 17 products

# Functions of codec $1 in the other arguments, objects.
functions_of() { nm --demangle --defined-only "${@:2}" | sed -n "s/^[0-9a-f]* [tTwW] \(.*ecmv::codecs::$1::.*\)/\1/p" | sed 's/ \[clone.*//' | sort -u | wc -l; }
kib_of() { size -A "$@" | awk '/^\.text/ { bytes += $2 } END { printf "%d", bytes / 1024 }'; }

above=()
column() {  # codec, bound, objects
  if [ ! -f "$3" ]; then
    printf ' %16s' -
    return
  fi
  local count
  count=$(functions_of "$1" "${@:3}")
  printf ' %7d %4d KiB' "$count" "$(kib_of "${@:3}")"
  [ "$count" -le "$2" ] || above+=("$1: $count functions in ${*:3}, at most $2 are allowed")
}

seen=0
printf '%-22s %16s %16s %16s\n' 'kernel functions' "cpu (<= $most_cpu)" "simd (<= $most_simd)" "gpu (<= $most_gpu)"
for folder in "$codecs"/*/; do
  id=$(basename "$folder")
  [ -f "$objects/$id/cpu.cpp.o" ] || [ -f "$objects/$id/simd.cpp.o" ] || [ -f "$gpu_objects/$id/gpu.cu.o" ] || continue
  printf '%-22s' "$id"
  column "$id" $most_cpu "$objects/$id/cpu.cpp.o"
  column "$id" $most_simd "$objects/$id/simd.cpp.o"
  column "$id" $most_gpu "$gpu_objects/$id"/*.cu.o
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
