# Sourced by the other scripts: makes .venv with t2t_repro installed in it, and activates it.
# Usage: source scripts/environment.sh base|test|gpu|plots     (without a word, Bash gives it those of
# the script that sources it)
extra="${1:-}"
case "$extra" in
    base | test | gpu | plots) ;;
    *)
        echo "error: environment.sh was given '$extra', expected base, test, gpu or plots." >&2
        exit 2
        ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."

is_new_enough() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; }

# pip comes last when an environment is made: without it, one was interrupted.
if [ ! -x .venv/bin/pip ]; then
    for python in ${PYTHON:-python3.11 python3.12 python3.13 python3}; do
        if is_new_enough "$python"; then break; fi
        python=""
    done
    if [ -z "$python" ]; then
        echo "error: found no Python 3.11, 3.12 or 3.13, which TensorFlow runs on: install one, or set PYTHON=/path/to/it." >&2
        exit 2
    fi
    "$python" -m venv --clear .venv
fi
source .venv/bin/activate

# What is installed is known by the requirements that it was installed from.
installed=".venv/installed-$extra"
package=.
if [ "$extra" != base ]; then package=".[$extra]"; fi
if ! cmp -s setup.py "$installed"; then
    echo "== installing (TensorFlow is large: some minutes on a slow line)"
    python -m pip install --quiet --disable-pip-version-check -e "$package"
    cp setup.py "$installed"
fi
export TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-2}"
