#!/bin/bash
# Runs the mpirun line of experiments/cluster/README.md, if mpirun is installed.
#   mpirun.sh ECMV CLUSTER_FOLDER     exit status 77: skipped, with the reason
set -u
ecmv=$1
command -v mpirun >/dev/null || { echo "skipped: there is no mpirun (third_party/install.sh cluster)"; exit 77; }
mpirun --version 2>/dev/null | grep -q "Open MPI" || { echo "skipped: this mpirun is not that of Open MPI"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place" || exit 1
cat >my.yaml <<CONFIG
schema: 1
name: my
experiments:
  - data: {source: gaussian, sigma: 4, layers: 2, d: [32, 48, 64]}
    codecs: all
    kernels: {backend: scalar, op: [decode, matvec], tuning: first}
CONFIG
keys() { cat "$@" | grep '"kind":"case"' | grep -o '"case":"[0-9a-f]*"' | sort; }
"$ecmv" run my.yaml --profile -o whole.jsonl >whole.txt 2>&1 || { cat whole.txt; exit 1; }
line=$(sed -n '/^mpirun/,/^```/p' "$2/README.md" | grep -v '^```' | tr -d '\n\\' |
  sed "s|build/ecmv|$ecmv|; s|my.yaml|& --profile|; s|--map-by ppr:1:node|--oversubscribe|")
bash -c "$line" >ranks.txt 2>&1 || { echo "$line"; cat ranks.txt; exit 1; }
[ "$(keys out/my/records.*-of-4.jsonl)" = "$(keys whole.jsonl)" ] || { echo "other cases than in one run"; exit 1; }
grep "^Shard" ranks.txt
