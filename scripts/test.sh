#!/usr/bin/env bash
# Everything that must be green: Ruff, mypy, pytest. With --all first, the slow tests too. Other arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh test
if [ "${1:-}" = --all ]; then shift; set -- -m "" "$@"; fi
echo "== ruff"
ruff check .
ruff format --check .
echo "== mypy and pytest"
# Together: for its first seconds, one of pytest's processes is all there is of it.
mypy &
mypy=$!
# A file a process: what its tests share is made once. tests/conftest.py says which come first.
# One more than cores, as tests wait for programs that they start.
outcome=0
python -m pytest --numprocesses "$(($(getconf _NPROCESSORS_ONLN) + 1))" --maxprocesses 4 \
    --dist loadfile --no-loadscope-reorder "$@" || outcome=$?
wait "$mypy" || outcome=1
exit "$outcome"
