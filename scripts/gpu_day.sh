#!/usr/bin/env bash
# All that is to be known on the first GPU, the safest first: see docs/gpu_day.md.
#
#   bash scripts/gpu_day.sh prepare --tfds=DIR --multi30k=DIR    # ahead, on a CPU with a network
#   bash scripts/gpu_day.sh run --kit=gpu_day/kit/1 --results=results.jsonl    # on the GPU
#
# Killed or taken away, it goes on where it stopped when it is called again with the same results.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case "${1:-}" in
    prepare | run) ;;
    *)
        sed -n '2,7s/^# \{0,1\}//p' scripts/gpu_day.sh
        if [ "${1:-}" = --help ]; then exit 0; fi
        echo "error: gpu_day.sh was given '${1:-}', expected prepare or run." >&2
        exit 2
        ;;
esac
verb="$1"
shift
exec "${PYTHON:-python3}" "scripts/gpu/$verb.py" "$@"
