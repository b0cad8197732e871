"""Starts worker processes of this package with only a few environment variables.

A list of excluded variables would not be safe, because the variable of a key may have any name
(`keys.signer_env`, `AWS_SECRET_ACCESS_KEY`, `PGPASSWORD`).
"""

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import oracle

_PASSED_VARIABLES = frozenset(
    {"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV"}
    # TLS certificates, and the .netrc file with credentials by host.
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC"}
)
_PASSED_PREFIXES = ("LC_", "PYTHON")
_PROXY_VARIABLES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})
# libpq fills in missing parts of a PostgreSQL address from these variables.
DATABASE_VARIABLES = frozenset(
    {"PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD", "PGPASSFILE"}
    | {"PGSERVICE", "PGSERVICEFILE", "PGSYSCONFDIR", "PGOPTIONS", "PGCONNECT_TIMEOUT"}
    | {"PGSSLMODE", "PGSSLNEGOTIATION", "PGSSLCERT", "PGSSLKEY", "PGSSLROOTCERT", "PGSSLCRL"}
    | {"PGSSLCRLDIR", "PGSSLSNI", "PGREQUIREPEER", "PGREQUIREAUTH", "PGCHANNELBINDING"}
    | {"PGGSSENCMODE", "PGKRBSRVNAME", "PGGSSLIB", "PGTARGETSESSIONATTRS", "PGLOADBALANCEHOSTS"}
)


def start_worker_process(
    module: str,
    *,
    stdout: int | None = subprocess.PIPE,
    also_passed: Collection[str] = (),
) -> "subprocess.Popen[bytes]":
    """Start `python -m module` with a pipe to its stdin.

    The process gets only the permitted environment variables, and the variables in `also_passed`.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if _is_inherited_by_workers(name) or name in also_passed
    }
    package_root = str(Path(oracle.__file__).resolve().parents[1])
    inherited_python_path = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = (
        package_root
        if not inherited_python_path
        else os.pathsep.join((package_root, inherited_python_path))
    )
    return subprocess.Popen(  # noqa: S603 - a module of this package
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=stdout,
        env=environment,
    )


def _is_inherited_by_workers(variable_name: str) -> bool:
    """Return whether workers inherit this environment variable."""
    return (
        variable_name in _PASSED_VARIABLES
        or variable_name.upper() in _PROXY_VARIABLES
        or variable_name.startswith(_PASSED_PREFIXES)
    )
