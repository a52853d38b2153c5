#!/bin/bash
# Runs fuzz targets, as many at once as there are cores:
#   tests/fuzz/run.sh BUILD SECONDS [TARGET...]      all targets, or some: decode readers config records
# Each begins with its seeds, the inputs of tests/fuzz/kept/TARGET, and the inputs that earlier runs kept in
# out/fuzz/TARGET. An input that ends a target is left in out/fuzz and named, and the exit status is 1. Fix the defect
# and move the input to tests/fuzz/kept/TARGET.
set -u
build=$(cd "$1" && pwd) seconds=$2
cd "$(dirname "$0")/../.." || exit 1
shift 2
(($# > 0)) || set -- decode readers config records

# Limits of one input: time in seconds, memory in MiB, and bytes. Without the entropic schedule and with short stacks of
# allocations the target `records` is four times as fast.
options=(-timeout=10 -rss_limit_mb=2048 -max_len=65536 -entropic=0 -print_final_stats=1 -verbosity=0)
export OMP_NUM_THREADS=1 ASAN_OPTIONS=quarantine_size_mb=16:malloc_context_size=4:${ASAN_OPTIONS-}

fuzz() {
  local target=$1 out=out/fuzz/$1
  rm -rf "$out.seeds" && mkdir -p "$out" "tests/fuzz/kept/$target"
  "$build/fuzz_$target" --seeds="$out.seeds" &&
    nice "$build/fuzz_$target" "${options[@]}" -max_total_time="$seconds" -artifact_prefix="$out-" \
      "$out" "$out.seeds" "tests/fuzz/kept/$target" >"$out.log" 2>&1
  echo $? >"$out.status"
}

mkdir -p out/fuzz
for target; do
  fuzz "$target" &
  while (($(jobs -rp | wc -l) >= $(nproc))); do wait -n; done
done
wait

total=0 failed=0
for target; do
  out=out/fuzz/$target status=$(<"out/fuzz/$target.status")
  count=$(sed -n 's/^stat::number_of_executed_units: *//p' "$out.log")
  printf 'fuzz: %-8s %12d inputs' "$target" "${count:-0}"
  ((total += ${count:-0}))
  if ((status != 0)); then
    failed=1
    printf ', ended by %s' "$(sed -n 's/.*Test unit written to //p' "$out.log" | tail -1)"
    grep -E -m 3 '^(BROKEN:|==[0-9]+==ERROR|terminate called|  what\(\))|runtime error:' "$out.log" |
      sed 's/^/\n      /' | tr -d '\n'
  fi
  echo
done
printf 'fuzz: %-8s %12d inputs in %s s each\n' total "$total" "$seconds"
exit $failed
