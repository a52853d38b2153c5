#!/bin/sh
# Every header compiles alone, headers of GPU code as in the emulator. Needs a configured build folder:
#   tests/lint/headers.sh build
set -eu
build=$(cd "${1:-build}" && pwd)
cd "$(dirname "$0")/../.."
[ -e "$build/compile_commands.json" ] ||
  { echo "headers: $build holds no compile_commands.json; run cmake --preset cpu first" >&2; exit 1; }

headers=$(git ls-files -co --exclude-standard | grep -E '\.h$' | grep -v nvidia_shim.h |
  while read -r file; do [ ! -e "$file" ] || echo "$file"; done)
# The include folders and definitions of all host files.
flags=$(grep -oE -- '(-I ?|-isystem )[^ ]+|-D(HWY|FMT)[^ ]*' "$build/compile_commands.json" |
  sort -u | tr '\n' ' ' | tr -d '\\"')

# Paths that CMake defines for tests.
paths=
for name in SOURCE_DIR BINARY EXAMPLE_LIBRARY VARIANTS_LIBRARY; do paths="$paths -DECMV_$name=\"\""; done

compile() {
  language=c++ extra=
  case $1 in
    codecs/ecmv_codec.h | experiments/library/ecmv.h) language=c extra=-std=c11 ;;
    *) extra=-std=c++20 ;;
  esac
  case $1 in
    *_gpu.h | codecs/*/gpu/* | backends/gpu/* | backends/emulator/*)
      extra="$extra -DECMV_GPU_EMULATOR -DECMV_GPU_NAME=\"emulator\"" ;;
  esac
  # shellcheck disable=SC2086
  printf '#include "%s"\n' "$1" | ${CXX:-g++} -x "$language" $extra -fsyntax-only $paths -I. $flags - 2>"$errors.$$" ||
    { echo "headers: $1 does not compile alone:"; grep -m 3 error "$errors.$$"; echo "$1" >>"$failed"; }
  rm -f "$errors.$$"
}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
errors=$folder/errors failed=$folder/failed
: >"$failed"
# Two at a time: odd and even ones.
echo "$headers" | awk 'NR % 2 == 0' >"$folder/even"
echo "$headers" | awk 'NR % 2 == 1' >"$folder/odd"
(while read -r header; do compile "$header"; done <"$folder/even") &
(errors=$errors.odd; while read -r header; do compile "$header"; done <"$folder/odd")
wait

[ ! -s "$failed" ] || exit 1
echo "headers: $(echo "$headers" | wc -l) compile alone"
