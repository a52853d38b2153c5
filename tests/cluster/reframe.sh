#!/bin/bash
# Runs a small sweep by the ReFrame test on this machine, if ReFrame is installed.
#   reframe.sh ECMV CLUSTER_FOLDER     exit status 77: skipped, with the reason
set -u
ecmv=$1 folder=$2
command -v reframe >/dev/null || { echo "skipped: there is no reframe (pip install ReFrame-HPC)"; exit 77; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place" || exit 1
cat >sweep.yaml <<CONFIG
schema: 1
name: sweep
experiments:
  - data: {source: gaussian, sigma: 4, layers: 2, d: [32, 48]}
    codecs: all
    kernels: {backend: scalar, op: [decode, matvec], tuning: first}
CONFIG
export TMPDIR=$place  # its log
keys() { cat "$@" | grep '"kind":"case"' | grep -o '"case":"[0-9a-f]*"' | sort; }
"$ecmv" run sweep.yaml --profile -o whole.jsonl >whole.txt 2>&1 || { cat whole.txt; exit 1; }
# Three shards of two datasets: one of them has nothing to do.
ECMV_SHARDS=3 reframe --prefix="$place" --nocolor -c "$folder/reframe_ecmv.py" -r -S ecmv="$ecmv" \
  -S config="$place/sweep.yaml" -S options=--profile >reframe.txt 2>&1 || { cat reframe.txt; exit 1; }
[ "$(keys $(find output -name records.jsonl))" = "$(keys whole.jsonl)" ] ||
  { echo "other cases than in one run"; exit 1; }
tail -n 5 reframe.txt
