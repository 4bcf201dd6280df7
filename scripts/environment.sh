# SPDX-License-Identifier: Apache-2.0
# Sourced by the other scripts, from the repository's root: finds Java and Python, installs what is
# asked for and leaves the interpreter's path in $python.  POSIX sh.

say() { printf '==> %s\n' "$*" >&2; }

die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Spark runs $JAVA_HOME/bin/java where JAVA_HOME is set, else the java on PATH.
require_java() {
    remedy='install a JDK 17 or newer and set JAVA_HOME to it.'
    if [ -n "${JAVA_HOME:-}" ]; then
        java=$JAVA_HOME/bin/java
        [ -x "$java" ] || die "Spark needs Java 17 or newer, but JAVA_HOME is '$JAVA_HOME', which has no bin/java; $remedy"
    else
        java=$(command -v java) || die "Spark needs Java 17 or newer, but there is no java on PATH; $remedy"
    fi
    # `version "1.8.0_392"` is Java 8, `version "17.0.15"` is Java 17.
    found=$("$java" -version 2>&1 | sed -n 's/.* version "\([^"]*\)".*/\1/p' | head -n 1)
    major=${found#1.}
    major=${major%%[!0-9]*}
    [ -n "$major" ] || die "Spark needs Java 17 or newer, but '$java -version' tells no version; $remedy"
    [ "$major" -ge 17 ] || die "Spark needs Java 17 or newer, but '$java' is Java $found; $remedy"
    say "Java $found ($java)"
}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

# The interpreter to use: $PYTHON if set, else the first on PATH that is new enough.
find_python() {
    if [ -n "${PYTHON:-}" ]; then
        new_enough "$PYTHON" || die "pyflinklike needs Python 3.10 or newer, but PYTHON is '$PYTHON', which is not; set PYTHON to one that is."
        python=$PYTHON
        return
    fi
    for python in python3 python python3.14 python3.13 python3.12 python3.11 python3.10; do
        if new_enough "$python"; then
            return
        fi
        # What was activated is what is meant; do not look behind it for another one.
        [ -z "${VIRTUAL_ENV:-}" ] || die "pyflinklike needs Python 3.10 or newer, but the active virtual environment '$VIRTUAL_ENV' has none; deactivate it or make it anew."
    done
    die 'pyflinklike needs Python 3.10 or newer, but there is none on PATH; install one, or set PYTHON to it.'
}

# The active virtual environment, or else .venv, made when it is missing or broken.
enter_environment() {
    find_python
    if "$python" -c 'import sys; sys.exit(sys.prefix == sys.base_prefix)'; then
        say "using the virtual environment that $python belongs to"
    else
        if ! .venv/bin/python -m pip --version >/dev/null 2>&1 || ! new_enough .venv/bin/python; then
            say "creating .venv with $python"
            "$python" -m venv --clear .venv || {
                rm -rf .venv
                die "$python could not create a virtual environment; on Debian and Ubuntu install the package python3-venv."
            }
        fi
        python=$PWD/.venv/bin/python
    fi
    python=$("$python" -c 'import sys; print(sys.executable)')
}

# install EXTRAS: once for each set of extras, and again when the requirements change.
install() {
    enter_environment
    stamp=$("$python" -c 'import sys; print(sys.prefix)')/.pyflinklike-$(printf '%s' "$1" | tr ',' '-')
    state="$PWD $(cat setup.cfg pyproject.toml | cksum)"
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$state" ]; then
        say "pyflinklike[$1] is installed"
    else
        say "installing pyflinklike[$1] (Spark is large: the first time takes some minutes)"
        "$python" -m pip install --quiet --disable-pip-version-check -e ".[$1]" ||
            die "pip could not install pyflinklike[$1]; its message is above."
        printf '%s\n' "$state" >"$stamp"
    fi
}

# Spark's own settings: the workers run this interpreter, the PySpark just installed brings its own
# Spark, and nothing depends on whether the host's name resolves.
set_up_spark() {
    PYSPARK_PYTHON=$python
    PYSPARK_DRIVER_PYTHON=$python
    SPARK_LOCAL_IP=${SPARK_LOCAL_IP:-127.0.0.1}
    export PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON SPARK_LOCAL_IP
    unset SPARK_HOME
}
