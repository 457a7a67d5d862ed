#!/usr/bin/env bash
# Installs what runs an exported model, without TensorFlow, in a folder of its own:
#     bash scripts/litert.sh [folder]      (.litert by default)
#     .litert/bin/python -m t2t_repro.serve --litert=...
set -euo pipefail
"${PYTHON:-python3}" -m venv "${1:-.litert}"
folder="$(cd "${1:-.litert}" && pwd)"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
pip=("$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile)
"${pip[@]}" -r scripts/litert_requirements.txt
"${pip[@]}" --no-deps .
echo "== now: $folder/bin/python -m t2t_repro.translate --litert=... < in.txt"
