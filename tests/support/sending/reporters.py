"""Several reporters of one contract on a real chain, with separate keys, databases and ports."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from eth_utils.address import to_checksum_address

from oracle.daemon.config.listener_section import StatementsSection
from oracle.daemon.web.http_server import serve_app
from oracle.daemon.web.statements_app import create_statements_app
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.lanes import (
    HIGHEST_SCORE,
    LOWEST_SCORE,
    compute_lane_with_reliability,
)
from oracle.domain.roots import node_leaves
from oracle.quorum.peer_client import PeerClients
from oracle.quorum.wire_format import Board
from oracle.reporting.report_planner import record_inherited_reports
from oracle.signing.local import KeySigner
from oracle.signing.signer import Signer
from oracle.store.database import Store
from oracle.txmgr.accounts_and_limits import ReporterKeys
from oracle.txmgr.context import StepResult
from tests.support.evm.chain import Chain
from tests.support.harness import ETHER, Harness, OracleTestbed, create_key_files

# A long timeout for peers: a peer that a busy machine delays would not be asked for ten times as
# long.
SECONDS = 60.0


@dataclass
class Reporter:
    """One reporter, whose board stays at its URL while the reporter restarts."""

    harness: Harness
    board: Board
    url: str
    # The maximum number of blocks in one window.
    window: int = 1_000
    is_down: bool = False

    @property
    def signer(self) -> Address:
        return self.harness.context.sender_account.signer.address

    def tick(self, *, restarting: bool = False) -> list[StepResult]:
        """Run one turn, unless the reporter is down; a window has at most `window` blocks."""
        if self.is_down:
            return []
        if restarting:
            # The board was in memory.
            Board.__init__(self.board)
            self.harness.restart()
        self.harness.ingest.max_blocks = self.window
        return self.harness.tick()

    def reports(self) -> dict[int, Hash]:
        """Return the fingerprint of each report, by period."""
        with self.harness.store.read_transaction() as uow:
            return {
                stored_report.report.period: stored_report.report.fingerprint
                for stored_report in uow.reports.list_newest(1000)
            }

    def signed(self) -> dict[int, Hash]:
        """Return the digest signed for each round so far."""
        last = self.harness.testbed.round + 1
        contract = self.harness.context.sender_account.domain.contract
        with self.harness.store.read_transaction() as uow:
            statements_by_round = {
                number: uow.statements.list_for_round(contract, number)
                for number in range(1, last + 1)
            }
        return {
            number: statements[0].digest
            for number, statements in statements_by_round.items()
            if statements
        }

    def lie(self) -> None:
        index_with_raised_scores(self.harness)


def index_with_raised_scores(harness: Harness) -> None:
    """Index with a fault that raises every reported score by one step until a restart."""
    # The faulty process plans before it cuts, so that it does not compare its own leaves.
    with harness.store.read_transaction() as uow:
        record_inherited_reports(harness.reporting, uow)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(node_leaves, "compute_lane_with_reliability", _compute_raised_lane)
        patched.setattr(node_leaves, "native", None)
        harness.index()


def _compute_raised_lane(*arguments: Any) -> int:
    lane = compute_lane_with_reliability(*arguments)
    return min(lane + 1, HIGHEST_SCORE) if lane >= LOWEST_SCORE else lane


@dataclass
class ReporterGroup:
    """Three reporters of a contract with a quorum of two."""

    testbed: OracleTestbed
    reporters: list[Reporter] = field(default_factory=list)

    @property
    def chain(self) -> Chain:
        return self.testbed.chain

    @property
    def first(self) -> Reporter:
        """The reporter that transmits."""
        return self.reporters[0]

    @property
    def others(self) -> Sequence[Reporter]:
        return self.reporters[1:]

    def tick(self, *, restarting: bool = False) -> None:
        """Let every reporter sign; then the first one collects the signatures and sends."""
        for reporter in [*self.others, self.first]:
            reporter.tick(restarting=restarting)

    def period(self) -> None:
        """End the next period, with enough blocks on top of its last block."""
        self.first.harness.period()

    def round(self, *, restarting: bool = False) -> None:
        """Run one more round, from its period to its receipt."""
        before = self.testbed.round
        self.period()
        self.tick(restarting=restarting)
        self.first.harness.mine()
        self.tick(restarting=restarting)
        assert self.testbed.round == before + 1, self.first.harness.steps[-20:]


@contextmanager
def run_reporter_group(
    testbed: OracleTestbed,
    stores: Sequence[Store],
    folder: Path,
    standby: Signer | None = None,
    **harness_options: Any,
) -> Iterator[ReporterGroup]:
    """Run one reporter for each store; all sign, and the quorum is two.

    The first reporter sends. With `standby`, the second sends as well, from that account.
    `harness_options` are given to every harness.
    """
    equipment = harness_options.pop("equipment", {})
    transmitters = {0: testbed.keys.transmitter, 1: standby}
    signers = [
        KeySigner.open(*create_key_files(folder, f"signer{place}")) for place in range(len(stores))
    ]
    chosen = [signer.address for signer in signers]
    does, admin = testbed.oracle.functions, testbed.network.admin
    testbed.chain.send(
        does.setSigners([to_checksum_address(signer_address) for signer_address in chosen], 2),
        sender=admin,
    )
    with ExitStack() as until_the_end:
        boards = [Board() for _ in stores]
        urls = [until_the_end.enter_context(_serve_board(board)) for board in boards]
        opened = ReporterGroup(testbed)
        for place, signer in enumerate(signers):
            peers = PeerClients.from_urls(
                [url for url in urls if url != urls[place]], 0.0, SECONDS
            )
            until_the_end.callback(peers.close)
            harness = Harness(
                replace(testbed, keys=ReporterKeys(signer, transmitters.get(place))),
                stores[place],
                folder / f"evidence{place}",
                equipment={"board": boards[place], "peers": peers, **equipment},
                **harness_options,
            )
            until_the_end.callback(harness.close)
            opened.reporters.append(Reporter(harness, boards[place], urls[place]))
        yield opened


@contextmanager
def _serve_board(board: Board) -> Iterator[str]:
    # Peers send requests as fast as the machine allows.
    often = StatementsSection(requests_per_second=10_000.0)
    with serve_app(create_statements_app(board), often, 0) as url:
        yield url


def create_second_transmitter(testbed: OracleTestbed, folder: Path) -> Signer:
    """Return another key, whose account has ether."""
    signer = KeySigner.open(*create_key_files(folder, "second"))
    testbed.chain.rpc("anvil_setBalance", signer.address, hex(ETHER))
    return signer
