#!/usr/bin/env bash
# Trains on Slurm, however often the job is taken away: sbatch scripts/cluster/slurm.sh gin/base_ende.gin
#
# Ninety seconds before the time limit, and when it is preempted, every trainer gets SIGTERM, writes a
# checkpoint and exits with 143; the job then puts itself back into the queue and goes on from there.
# Any other failure ends it, since the same command would fail again.
#
# On several machines, with --nodes=4 after sbatch, every machine has a worker with all its GPUs. The
# global batch stays what the gin file says; let TrainStep.micro_batches be a multiple of all the GPUs. A
# worker that is lost ends the others with 143, and they start again together.
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

# A signal that comes before the trainer has begun: see below.
asked=""
trap 'asked=yes' TERM

if [ "$#" -lt 1 ]; then
    echo "usage: sbatch scripts/cluster/slurm.sh gin/<experiment>.gin [flags of t2t_repro.trainer]" >&2
    exit 2
fi
if [ -z "${SLURM_JOB_ID:-}" ]; then
    echo "error: SLURM_JOB_ID is not set, expected a job of Slurm: start it with sbatch, not with bash." >&2
    exit 2
fi
gin_file=$1
shift
# Without it, whichever Python comes first would train.
if [ ! -f "${VENV:-.venv}/bin/activate" ]; then
    echo "error: there is no environment ${VENV:-.venv}: make it with scripts/environment.sh, or set VENV." >&2
    exit 2
fi
source "${VENV:-.venv}/bin/activate"

launcher=()
if [ "${SLURM_JOB_NUM_NODES:-1}" -gt 1 ]; then
    # It ends with the greatest of the workers' statuses.
    launcher=(srun --kill-on-bad-exit=0 --wait=120 --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}")
fi

# Of a SIGTERM srun makes SIGKILL for its tasks. scancel sends SIGTERM to the tasks, and not to this
# script; those that srun is still starting would not get it.
stop() {
    if [ "${#launcher[@]}" -gt 0 ]; then
        for _ in {1..30}; do
            [[ "$(squeue --noheader --steps --jobs="$SLURM_JOB_ID" --format=%i)" == *.[0-9]* ]] && break
            kill -0 "$trainer" 2>/dev/null || return
            sleep 1
        done
        scancel --signal=TERM "$SLURM_JOB_ID"
    else
        kill -TERM "$trainer"
    fi
}

if [ -n "$asked" ]; then
    scontrol requeue "$SLURM_JOB_ID"
    exit 143
fi
# Bash runs a trap only between commands: so the trainer runs beside it.
# Spelled so that an empty list is none to a bash before 4.4.
${launcher[@]+"${launcher[@]}"} python -m t2t_repro.trainer --gin_file="$gin_file" "$@" &
trainer=$!
trap stop TERM
if [ -n "$asked" ]; then stop; fi
wait "$trainer"
status=$?
# A trap ends `wait` before its time.
while kill -0 "$trainer" 2>/dev/null; do
    wait "$trainer"
    status=$?
done

if [ "$status" -eq 143 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
