#!/usr/bin/env bash
# Trains on Slurm until the training is finished: sbatch scripts/cluster/slurm.sh gin/base_ende.gin
#
# Ninety seconds before the time limit, and when the job is preempted, every trainer gets SIGTERM,
# writes a checkpoint and exits with 143. The job then requeues itself and goes on from there. It also
# does so if a worker was killed, since the others exit with 143. It ends for good if a worker exits
# with 1 to 127, e.g. by a mistake in the experiment: the same command would fail again.
#
# With --nodes=4 after sbatch, every machine has a worker with all its GPUs. The global batch stays
# what the gin file says; let TrainStep.micro_batches be a multiple of the number of all GPUs.
#SBATCH --job-name=t2t_repro
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
#SBATCH --signal=B:TERM@90
set -uo pipefail

# A signal may come before the trainer has begun.
asked=""
trap 'asked=yes' TERM

if [ "$#" -lt 1 ] || [ -z "${SLURM_JOB_ID:-}" ]; then
    echo "usage: sbatch scripts/cluster/slurm.sh gin/<experiment>.gin [flags of t2t_repro.trainer]" >&2
    exit 2
fi
gin_file=$1
shift
# Without it, whichever Python comes first would train.
source "${VENV:-.venv}/bin/activate" || exit 2

# srun ends with the greatest status of all tasks, which hides a mistake (2) behind a loss (143): so
# every task writes its own. A shell that traps SIGTERM outlives the trainer, which gets it too.
statuses=$(mktemp -d "$PWD/.t2t_repro-$SLURM_JOB_ID.XXXXXX")
task='trap : TERM; "${@:2}"; status=$?; echo "$status" > "$1/$SLURM_PROCID"; exit "$status"'

# SIGTERM to srun would become SIGKILL for its tasks, so scancel signals them. Tasks that srun is still
# starting would not get it.
stop() {
    for _ in {1..30}; do
        [[ "$(squeue --noheader --steps --jobs="$SLURM_JOB_ID" --format=%i)" == *.[0-9]* ]] && break
        kill -0 "$step" 2>/dev/null || return
        sleep 1
    done
    scancel --signal=TERM "$SLURM_JOB_ID"
}

status=143
if [ -z "$asked" ]; then
    srun --kill-on-bad-exit=0 --wait=120 --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" \
        bash -c "$task" task "$statuses" python -m t2t_repro.trainer --gin_file="$gin_file" "$@" &
    step=$!
    trap stop TERM
    if [ -n "$asked" ]; then stop; fi
    # A trap ends `wait` before its time.
    while wait "$step"; status=$?; kill -0 "$step" 2>/dev/null; do :; done
    for own in $(cat "$statuses"/* 2>/dev/null); do
        if [ "$own" -ge 1 ] && [ "$own" -le 127 ]; then status=$own; fi
    done
fi
rm -r "$statuses"
if [ "$status" -ge 128 ]; then
    echo "slurm.sh: status $status; requeues job $SLURM_JOB_ID" >&2
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
