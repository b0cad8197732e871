"""The wall clock is set back or forth while a daemon runs, by NTP or a restored machine.

The tests use real processes, whose clock a preloaded library changes.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from oracle.store.database import Store
from tests.support.cli.daemon import run_daemon, start_daemon
from tests.support.cli.local_network import write_config
from tests.support.ingest.daemons import build_daemon_settings, write_daemon_config
from tests.support.ingest.fake_chain import FakeChain
from tests.support.stepped_clock import SteppedClock, needs_compiler

pytestmark = needs_compiler

DAY = 86_400
# The lease's loop does nothing from a moment on, at a threshold that a test can wait for.
# A daemon whose index step hangs once a file exists, with a threshold short enough for a test.
HANGING = """
import pathlib, threading
import oracle.daemon.scheduler as scheduler, oracle.daemon.index_job as index_job
from oracle.cli.main import main
scheduler.STUCK_SECONDS = 5.0
tick = index_job.IndexJob.run_tick
def hang(work):
    return threading.Event().wait() if pathlib.Path({hang!r}).exists() else tick(work)
index_job.IndexJob.run_tick = hang
main()
"""


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SteppedClock:
    stepped_clock = SteppedClock(tmp_path)
    for name, value in stepped_clock.environment.items():
        monkeypatch.setenv(name, value)
    return stepped_clock


@pytest.mark.parametrize("seconds", [-DAY, DAY])
def test_daemon_follows_the_chain_after_a_clock_step(
    fake_chain: FakeChain, clock: SteppedClock, tmp_path: Path, seconds: int
):
    with run_daemon(write_daemon_config(fake_chain, tmp_path)) as running:
        running.wait_for_block(fake_chain.head.number)
        clock.step(seconds)
        for _ in range(3):
            fake_chain.live(1)
            running.wait_for_block(fake_chain.head.number)
        assert running.get("/livez").status_code == 200
        running.wait_for_text("/readyz", "wrong_clock")
        clock.step(0)
        running.wait_until_ready()


# A job whose first tick sets the wall clock back; the third tick ends the program.
TICKING = """
import os, pathlib, struct, threading, time
from oracle.daemon.scheduler import Job, JobLiveness, run_jobs
stop, ticks = threading.Event(), []

def tick():
    ticks.append(time.time())
    if len(ticks) == 1:
        pathlib.Path(os.environ["STEPPED_CLOCK"]).write_bytes(struct.pack("=q", -86_400))
    elif len(ticks) == 3:
        stop.set()

run_jobs([Job("tick", 0.05, tick)], stop, JobLiveness(time.monotonic))
print(round(ticks[0] - ticks[-1]))
"""


def test_job_still_runs_after_the_clock_is_set_back(clock: SteppedClock):
    command = [sys.executable, "-c", TICKING]
    environment = {**os.environ, **clock.environment}

    completed = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=True
    )

    assert int(completed.stdout) > DAY - 60


def test_standby_takes_over_from_a_leader_whose_loop_hangs(fake_chain: FakeChain, tmp_path: Path):
    hang = tmp_path / "hang"
    paths = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        daemon_settings = build_daemon_settings(fake_chain, folder)
        daemon_settings["database"]["url"] = f"sqlite:///{tmp_path / 'oracle.sqlite'}"
        paths.append(write_config(daemon_settings, folder / "config.toml"))
    program = ("-c", HANGING.format(hang=str(hang)))
    with (
        run_daemon(paths[0], program=program) as leader,
        start_daemon(paths[1], "--standby") as standby,
    ):
        standby.wait_for("waiting_for_lease")
        leader.wait_until_ready()
        hang.touch()

        started_event = standby.wait_for("daemon_started")

        # The daemon exits with a code after which a supervisor restarts it.
        assert leader.process.wait(60) == 1
        assert "the daemon's worker has made no progress for" in leader.log.read_text("utf-8")
        standby.url = started_event["web"]
        fake_chain.live(2)
        standby.wait_for_block(fake_chain.head.number)


def test_standby_takes_over_expired_lease_after_clock_is_set_back(
    fake_chain: FakeChain, clock: SteppedClock, tmp_path: Path
):
    path = write_daemon_config(fake_chain, tmp_path)
    with run_daemon(path) as leader:
        leader.wait_until_ready()
        url = build_daemon_settings(fake_chain, tmp_path)["database"]["url"]
        with Store.open(url, create=True) as store, store.transaction() as uow:
            # A holder that no longer renews, and whose state no kernel can report.
            leader.process.kill()
            leader.process.wait()
            before = uow.lease.get_state()
            acquired_lease = uow.lease.acquire("elsewhere", 30.0, dead_epoch=before.epoch)
        assert acquired_lease is not None
        clock.step(-DAY)
        with start_daemon(path, "--standby") as standby:
            assert standby.wait_for("daemon_started")["epoch"] == acquired_lease + 1
