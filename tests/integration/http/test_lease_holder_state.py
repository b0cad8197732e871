"""Whether the process that holds the lease is gone: if this is uncertain, it counts as alive."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oracle.daemon import lease_keeper
from oracle.daemon.lease_keeper import (
    HolderState,
    LeaseHeldError,
    acquire_lease,
    build_holder_name,
    find_leader,
    get_holder_state,
    hold_lease,
    try_acquire_lease,
)
from oracle.store.database import Store

_NAMES_ITSELF = (
    "import sys, oracle.daemon.lease_keeper as h;"
    "print(h.build_holder_name('run'), flush=True); sys.stdin.read()"
)


@contextmanager
def named_process() -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Yield a waiting process that has printed its name as a holder."""
    command = [sys.executable, "-c", _NAMES_ITSELF]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as running:
        assert running.stdout is not None
        try:
            yield running, running.stdout.readline().strip()
        finally:
            running.kill()


def test_lease_holder_in_current_process_is_alive():
    assert get_holder_state(build_holder_name("run")) is HolderState.ALIVE


def test_killed_lease_holder_is_reported_dead_before_and_after_reaping():
    with named_process() as (running, name):
        assert get_holder_state(name) is HolderState.ALIVE
        running.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)
        assert get_holder_state(name) is HolderState.GONE
        running.wait()
        assert get_holder_state(name) is HolderState.GONE


def test_lease_holder_in_stopped_process_is_alive():
    with named_process() as (running, name):
        running.send_signal(signal.SIGSTOP)
        assert get_holder_state(name) is HolderState.ALIVE


def test_reused_process_id_is_not_mistaken_for_lease_holder():
    name = build_holder_name("run")
    begun = name.partition("(begun ")[2].partition(" ")[0]
    earlier = name.replace(f"begun {begun}", f"begun {int(begun) - 1}")
    assert get_holder_state(earlier) is HolderState.GONE


@pytest.mark.parametrize(
    "name",
    [
        None,
        "the daemon",
        "qos-oracle run on host, process 7",
        # Of another host, boot or namespace.
        "qos-oracle run on host, process 7 (begun 12 at 0123456789abcdef)",
        "qos-oracle run on host, process 0 (begun 12 at 0123456789abcdef)",
    ],
)
def test_state_of_a_lease_holder_on_another_host_is_unknown(name: str | None):
    assert get_holder_state(name) is HolderState.UNKNOWN


@pytest.mark.parametrize("hidden", ["sys/kernel/random/boot_id", "self", "self/ns/pid"])
def test_lease_holder_state_is_unknown_without_proc_information(
    hidden: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with named_process() as (running, name):
        running.kill()
        running.wait()
        assert get_holder_state(name) is HolderState.GONE
        _proc(tmp_path, hidden)
        monkeypatch.setattr(lease_keeper, "_PROC", tmp_path)
        monkeypatch.setattr(lease_keeper, "_BOOT", tmp_path / "sys/kernel/random/boot_id")
        assert get_holder_state(name) is HolderState.UNKNOWN
        assert "begun" not in build_holder_name("run")


def test_lease_holder_state_is_unknown_with_a_foreign_proc_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    name = build_holder_name("run")
    (tmp_path / "self").symlink_to("1234567")
    monkeypatch.setattr(lease_keeper, "_PROC", tmp_path)
    assert get_holder_state(name) is HolderState.UNKNOWN


def _proc(folder: Path, hidden: str) -> None:
    """Return a /proc without one part, as this process sees it."""
    (folder / "sys/kernel/random").mkdir(parents=True)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii")
    if hidden != "sys/kernel/random/boot_id":
        (folder / "sys/kernel/random/boot_id").write_text(boot, "ascii")
    own = folder / str(os.getpid())
    (own / "ns").mkdir(parents=True)
    for kind in ("pid", "time"):
        if hidden != f"self/ns/{kind}":
            (own / "ns" / kind).symlink_to(Path("/proc/self/ns", kind).readlink())
    if hidden != "self":
        (folder / "self").symlink_to(str(os.getpid()))


def test_lease_of_a_dead_holder_is_taken_over_immediately(database_url: str):
    with named_process() as (running, name), Store.open(database_url) as store:
        with store.transaction() as uow:
            assert uow.lease.acquire(name, 3600) == 1
        with pytest.raises(LeaseHeldError, match=f"process {running.pid} "):
            acquire_lease(store, "new")
        running.kill()
        running.wait()
        with store.read_transaction() as uow:
            assert find_leader(uow.lease.get_state()) is None
        assert acquire_lease(store, "new") == 2


def test_only_one_process_takes_over_the_lease_of_a_dead_holder(database_url: str):
    with named_process() as (running, name), Store.open(database_url) as store:
        running.kill()
        running.wait()
        with store.transaction() as uow:
            assert uow.lease.acquire(name, 3600) == 1
        # What both have read before either writes.
        with store.transaction() as uow:
            assert uow.lease.acquire("one", 3600, dead_epoch=1) == 2
        with store.transaction() as uow:
            assert uow.lease.acquire("the other", 3600, dead_epoch=1) is None


def test_lease_holder_in_an_unknown_state_keeps_the_lease(database_url: str):
    with Store.open(database_url) as store:
        with store.transaction() as uow:
            assert uow.lease.acquire("qos-oracle run on elsewhere, process 7", 3600) == 1
        assert try_acquire_lease(store, "new")[0] is None
        with pytest.raises(LeaseHeldError), hold_lease(store, "new"):
            pass
