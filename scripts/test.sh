#!/usr/bin/env bash
# Everything that must be green: Ruff, mypy, pytest. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh test
echo "== ruff"
ruff check .
ruff format --check .
echo "== mypy"
mypy
echo "== pytest"
# A file a core: what its tests share is made once. tests/conftest.py says which come first. By the end one process takes six gigabytes, another three.
python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile \
    --no-loadscope-reorder "$@"
