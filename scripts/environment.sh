# Sourced by the other scripts: makes .venv with t2t_repro installed in it, and activates it.
# Usage: source scripts/environment.sh [extra]     (extra: "test" or "gpu")
extra="${1:-}"
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
python="${PYTHON:-$(command -v python3.13 || command -v python3.12 || command -v python3.11 || echo python3)}"
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "error: $python is $("$python" -V 2>&1), expected Python 3.11 or newer: set PYTHON=/path/to/it." >&2
    exit 2
fi
[ -x .venv/bin/python ] || "$python" -m venv .venv
# shellcheck disable=SC1091
source .venv/bin/activate
# What is installed is known by the requirements it was installed from.
stamp=".venv/installed-${extra:-base}"
if ! cmp -s setup.py "$stamp"; then
    echo "== installing (TensorFlow is large: some minutes on a slow line)"
    python -m pip install --quiet --disable-pip-version-check -e ".${extra:+[$extra]}"
    cp setup.py "$stamp"
fi
export TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-2}"
