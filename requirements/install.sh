#!/bin/sh
# Builds .venv from nothing, exactly as the lock says: `install.sh core` (what users get) or `install.sh dev`.
# `install.sh fuzz` adds to it what coverage-guided fuzzing takes.
# Called by make, which knows when it is due. Uses uv where there is one, else venv and pip.
# PYTHON=… picks the interpreter. Pip's own environment settings count (a private index means pip does it).
set -eu
level=$1
cd "$(dirname "$0")/.."

say() { printf 'set-up: %s\n' "$*"; }
fail() { printf 'set-up: failed: %s\n' "$*" >&2; exit 1; }

# Started, not only looked up: a version manager leaves stand-ins on PATH for versions that are not there.
fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' >/dev/null 2>&1; }

find_python() {
    for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3 python}; do
        if fits "$candidate"; then command -v "$candidate"; return; fi
    done
    fail "no Python 3.11, 3.12 or 3.13 found (tried: ${PYTHON:-python3.13 python3.12 python3.11 python3 python});" \
        "install one, or name it: make PYTHON=/path/to/python3"
}

# Wheels only: an sdist would fetch its own build tools, unpinned.
pins() {
    printf -- '--require-hashes --only-binary :all:'
    case $level in
        core) printf ' -r requirements/core.txt -r requirements/build.txt' ;;
        dev | fuzz) printf ' -r requirements/%s.txt' "$level" ;;
        *) fail "unknown level '$level': core, dev or fuzz" ;;
    esac
}

uv_wanted() {
    command -v uv >/dev/null 2>&1 && [ -z "${PIP_INDEX_URL:-}${PIP_EXTRA_INDEX_URL:-}${PIP_NO_INDEX:-}" ]
}

with_uv() {
    [ -z "${PIP_NO_CACHE_DIR:-}" ] || export UV_NO_CACHE=1
    rm -rf .venv
    uv venv --quiet --python "$1" .venv || return 1
    # shellcheck disable=SC2046  # the pins are several words
    uv pip install --quiet --python .venv/bin/python $(pins) || return 1
    uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation -e .
}

with_pip() {
    rm -rf .venv
    "$1" -m venv .venv || fail "$1 cannot make a virtual environment (Debian: install python3-venv)"
    pip="env PIP_DISABLE_PIP_VERSION_CHECK=1 .venv/bin/python -m pip install -qq"
    # shellcheck disable=SC2046
    $pip $(pins) || fail "pip could not install the pinned packages (see above); it needs its package index once:" \
        "check the network and pip's settings, then run the same command again"
    $pip --no-deps --no-build-isolation -e . || fail "kedge itself could not be installed (see above)"
}

# Into the .venv that is there, whoever made it: uv's has no pip of its own.
add() {
    say "adding the pinned packages ($level) to .venv"
    # shellcheck disable=SC2046
    if uv_wanted && uv pip install --quiet --python .venv/bin/python $(pins); then return; fi
    .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null
    # shellcheck disable=SC2046
    env PIP_DISABLE_PIP_VERSION_CHECK=1 .venv/bin/python -m pip install -qq $(pins) ||
        fail "atheris could not be installed (see above). It has wheels for CPython 3.11 to 3.13 on Linux x86-64" \
            "only; elsewhere \`make prove ARGS='--only fuzz'\` tries the same targets without it"
}

pins >/dev/null
if [ "$level" = fuzz ]; then add; exit; fi
python=$(find_python)
say "$("$python" -V) at $python"
if uv_wanted; then
    say "installing the pinned packages ($level) into .venv with uv"
    with_uv "$python" || { say "uv could not (see above); once more with pip"; with_pip "$python"; }
else
    say "installing the pinned packages ($level) into .venv with pip"
    with_pip "$python"
fi
