# Sourced by ./demo and ./check: sets PYTHON to the first Python 3.11 or newer.
PYTHON=
for candidate in python3 python3.11 python3.12 python3.13 python; do
    if command -v "$candidate" >/dev/null 2>&1 &&
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        PYTHON=$candidate
        break
    fi
done
if [ -z "$PYTHON" ]; then
    echo "Python 3.11 or newer is needed; on Debian or Ubuntu: apt-get install --yes python3 python3-venv" >&2
    exit 2
fi
