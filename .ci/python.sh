# Sourced by ./demo and ./check: sets PYTHON to the first Python 3.11 or newer.
PYTHON=
older=
for candidate in python3 python3.11 python3.12 python3.13 python3.14 python; do
    command -v "$candidate" >/dev/null 2>&1 || continue
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        PYTHON=$candidate
        break
    fi
    older=${older:-$("$candidate" -c 'import platform; print(platform.python_version())')} || true
done
if [ -z "$PYTHON" ]; then
    echo "Python 3.11 or newer is needed, and this machine has ${older:-none}: Debian 12," \
        "Ubuntu 24.04 and newer have it as python3, Ubuntu 22.04 as python3.11 (apt-get install)" >&2
    exit 2
fi
