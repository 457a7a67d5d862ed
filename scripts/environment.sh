# Sourced by the other scripts: makes .venv with t2t_repro installed in it, and activates it.
# Usage: source scripts/environment.sh base|quickstart|test|gpu|plots     (without a word, Bash gives it
# those of the script that sources it)
extra="${1:-}"
case "$extra" in
    base | quickstart | test | gpu | plots) ;;
    *)
        echo "error: environment.sh was given '$extra', expected base, quickstart, test, gpu or plots." >&2
        # Not exit: typed at a prompt, it would end the user's shell.
        return 2
        ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."

is_new_enough() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; }

find_python() {
    local python
    if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3.11 python3.12 python3.13 python3; fi
    for python in "$@"; do
        if is_new_enough "$python"; then echo "$python"; return; fi
    done
    echo "error: found no Python 3.11, 3.12 or 3.13, which TensorFlow runs on: install one, or set PYTHON=/path/to/it." >&2
    return 2
}

# `activate` comes last when an environment is made: without it, one was interrupted.
is_whole() { [ -x .venv/bin/python ] && [ -f .venv/bin/activate ]; }
is_made() { is_whole && [ -x .venv/bin/pip ]; }
make_it() {
    if ! is_whole; then "$1" -m venv --clear .venv; return; fi
    # Another program has made it, without pip: what is in it stays.
    .venv/bin/python -m ensurepip --default-pip > /dev/null 2>&1 && is_made && return
    echo "error: $PWD/.venv has no pip, and none could be put into it: install pip there, or delete it." >&2
    return 2
}
# What is installed is known by the requirements that it was installed from.
is_installed() { is_made && cmp -s setup.py ".venv/installed-$extra"; }

if ! is_installed; then
    python=.venv/bin/python
    is_made || python="$(find_python)" || return 2
    # Of several scripts one makes it, and the others wait. The lock is the kernel's, on what lies
    # behind a descriptor of this shell: it is free again when the shell ends, however that comes.
    exec 9< setup.py
    "$python" -c 'import contextlib, fcntl
with contextlib.suppress(OSError):
    fcntl.flock(9, fcntl.LOCK_EX)'
    is_made || make_it "$python" || { exec 9<&-; return 2; }
    source .venv/bin/activate
    if ! is_installed; then
        echo "== installing (TensorFlow is large: some minutes on a slow line)"
        package=.
        if [ "$extra" != base ]; then package=".[$extra]"; fi
        # pip would compile on one core, and what no program of ours imports too. A package may have
        # files for other versions of Python.
        # At a prompt nothing ends where a command fails.
        python -m pip install --quiet --disable-pip-version-check --no-compile -e "$package" &&
            { python -m compileall -qq -j 0 -x '/(pip|debugpy|mypyc?|tests)/' .venv/lib || true; } &&
            cp setup.py ".venv/installed-$extra" || { exec 9<&-; return 1; }
    fi
    exec 9<&-
fi
source .venv/bin/activate
export TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-2}"
# glibc's large pages: a twentieth of a training's time on a CPU went into page faults.
export GLIBC_TUNABLES="${GLIBC_TUNABLES:-glibc.malloc.hugetlb=1}"
