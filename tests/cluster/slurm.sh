#!/bin/bash
# Runs the script for job arrays under a real Slurm: a controller and a daemon on this machine, with their own munge and
# ports, removed at the end. An array of three tasks must give the same cases as one run.
#   slurm.sh ECMV CLUSTER_FOLDER     exit status 77: skipped, with the reason
set -u
ecmv=$1 template=$2/sweep.sbatch
skip() { echo "skipped: $*"; exit 77; }
fail() { echo "FAILED: $*"; tail -n 20 "$place"/*.log "$place"/*.txt 2>/dev/null; exit 1; }

PATH=$PATH:/usr/sbin:/sbin
for program in munged slurmctld slurmd sbatch scontrol; do
  command -v $program >/dev/null || skip "there is no $program (third_party/install.sh cluster)"
done
[ "$(id -u)" -eq 0 ] || skip "only root can start the daemon of Slurm"

place=$(mktemp -d)
chmod 755 "$place"
started=()
stop() {
  ((${#started[@]})) && kill "${started[@]}" 2>/dev/null
  wait
  rm -rf "$place"
}
trap stop EXIT
trap 'exit 130' INT TERM

# Two ports that nobody listens to.
free_port() {
  local port
  for port in $(shuf -i 20000-32000 -n 20); do
    (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
  done
}
host=$(hostname -s)
mkdir "$place/state" "$place/spool"
cat >"$place/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$place/munge.socket
CredType=cred/munge
StateSaveLocation=$place/state
SlurmdSpoolDir=$place/spool
SlurmctldPidFile=$place/slurmctld.pid
SlurmdPidFile=$place/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc)
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$place/slurm.conf

(umask 077 && head -c 128 /dev/urandom >"$place/munge.key")
munged --foreground --force --key-file="$place/munge.key" --socket="$place/munge.socket" --pid-file="$place/munge.pid" \
  --log-file="$place/munged.log" --seed-file="$place/munge.seed" >"$place/munged.out.log" 2>&1 &
started+=($!)
for _ in $(seq 50); do [ -S "$place/munge.socket" ] && break; sleep 0.1; done
[ -S "$place/munge.socket" ] || skip "munged did not start: $(tail -n 1 "$place"/munged*.log)"
slurmctld -D -f "$SLURM_CONF" >"$place/slurmctld.log" 2>&1 &
started+=($!)
slurmd -D -f "$SLURM_CONF" >"$place/slurmd.log" 2>&1 &
started+=($!)
for _ in $(seq 150); do
  state=$(sinfo --noheader --format=%t 2>/dev/null)
  [ "$state" = idle ] && break
  sleep 0.1
done
[ "$state" = idle ] ||
  skip "Slurm's node is not ready (state '$state'): $(tail -qn 1 "$place/slurmctld.log" "$place/slurmd.log")"

cd "$place" || exit 1
cat >sweep.yaml <<CONFIG
schema: 1
name: sweep
experiments:
  - data: {source: gaussian, sigma: 4, layers: 2, d: [32, 48, 64, 80]}
    codecs: all
    kernels: {backend: scalar, op: [decode, matvec], tuning: first}
CONFIG
keys() { cat "$@" | grep '"kind":"case"' | grep -o '"case":"[0-9a-f]*"' | sort; }
"$ecmv" run sweep.yaml --profile -o whole.jsonl >whole.txt 2>&1 || fail "the run without Slurm ended with $?"

# Without --shard the command takes the numbers of the array, wherever they begin.
printf '#!/bin/bash\nexec "%s" run sweep.yaml --profile -o plain-$SLURM_ARRAY_TASK_ID.jsonl\n' "$ecmv" >plain.sbatch
sbatch --array=11-19:4 --time=5 --output=plain-%a.txt plain.sbatch >plain.txt 2>&1 ||
  fail "the plain array was not taken"

ECMV=$ecmv sbatch --wait --array=0-2 --time=5 "$template" sweep.yaml --profile >submitted.txt 2>&1 ||
  fail "the array ended with $?"
head -n 1 slurm-*.txt
[ "$(ls out/sweep/records.*-of-3.jsonl | wc -l)" -eq 3 ] || fail "there are not three record files"
[ "$(keys out/sweep/records.*-of-3.jsonl)" = "$(keys whole.jsonl)" ] || fail "the tasks did not run each case once"

# One task again, alone: it is told the number of tasks, and finds nothing left to do.
ECMV=$ecmv ECMV_SHARDS=3 sbatch --wait --array=1 --time=5 "$template" sweep.yaml --profile >again.txt 2>&1 ||
  fail "the task that was submitted again ended with $?"
[ "$(keys out/sweep/records.*-of-3.jsonl | uniq)" = "$(keys whole.jsonl)" ] || fail "the task again ran other cases"

for task in 11 15 19; do
  grep -q "^Shard $(((task - 11) / 4))/3: " plain-$task.txt || fail "task $task of 11-19:4 is another shard"
done
[ "$(keys plain-*.jsonl)" = "$(keys whole.jsonl)" ] || fail "the plain tasks did not run each case once"

"$ecmv" report out/sweep/records.*-of-3.jsonl -o report >report.txt 2>&1 || fail "the report of the parts ended with $?"
echo "passed: $(keys whole.jsonl | wc -l) cases in three tasks"
