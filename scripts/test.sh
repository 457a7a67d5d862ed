#!/usr/bin/env bash
# Everything that must be green: Ruff, mypy, pytest. With --all first, the slow tests too. Other arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh test
if [ "${1:-}" = --all ]; then shift; set -- -m "" "$@"; fi
echo "== ruff"
ruff check .
ruff format --check .
echo "== mypy"
mypy
echo "== pytest"
# A file a core: what its tests share is made once. tests/conftest.py says which come first. By the end one process takes six gigabytes, another three.
python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile \
    --no-loadscope-reorder "$@"
