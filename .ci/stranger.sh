#!/bin/sh
# Runs the README's two commands as a newcomer would: in a clean clone of the commit, as a new user with an
# empty home and no caches, with the system's Python and pip. `./check` skips its tests, because CI runs them
# in parallel. Only root can create the user; any other user runs the script as itself, with an empty home.
# The machine's settings for mirrors and certificates stay in the environment.
set -eu
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
user=
remove() {
    [ -z "$user" ] || userdel "$user" || true
    rm -rf "$folder"
}
trap remove EXIT
git clone --quiet . "$folder/qos-oracle"
mkdir "$folder/home" "$folder/tmp"
as_stranger=
if [ "$(id -u)" = 0 ]; then
    name="stranger$$"
    useradd --home-dir "$folder/home" --shell /bin/sh "$name"
    user=$name
    chown -R "$user:" "$folder"
    as_stranger="runuser --user $user --"
fi

# shellcheck disable=SC2086  # a command and its arguments
run() {
    echo "stranger: $*"
    (cd "$folder/qos-oracle" && $as_stranger env -u VIRTUAL_ENV -u PYTHONPATH -u XDG_CACHE_HOME \
        -u XDG_CONFIG_HOME -u PYTHONDONTWRITEBYTECODE -u PIP_CACHE_DIR -u QOS_ORACLE_TESTS_SKIP_NOTHING \
        HOME="$folder/home" TMPDIR="$folder/tmp" \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@")
}

run ./demo
# After ./demo alone, a make target still has to install its tools.
if command -v make >/dev/null 2>&1; then
    run make wheel
fi
run ./check --fast
