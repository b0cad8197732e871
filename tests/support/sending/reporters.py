"""Several reporters of one contract: separate keys, databases and HTTP doors, one real chain."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from eth_utils.address import to_checksum_address
from sqlalchemy import update

from oracle.daemon.config.listener_section import StatementsSection
from oracle.daemon.web.http_server import serve_app
from oracle.daemon.web.statements_app import create_statements_app
from oracle.domain.ids import Address, Hash
from oracle.quorum.peer_client import PeerClients
from oracle.quorum.wire_format import Board
from oracle.signing.local import KeySigner
from oracle.signing.signer import Signer
from oracle.store.database import Store
from oracle.store.tables.round_tables import report
from oracle.txmgr.accounts_and_limits import ReporterKeys
from oracle.txmgr.context import StepResult
from tests.support.evm.chain import Chain
from tests.support.office import ETHER, Office, Premises, key_files

# A peer is patient here: whom a busy machine made late would be left alone for ten times as long.
SECONDS = 60.0


@dataclass
class Reporter:
    """One reporter: what it shows stays at its address while it is restarted."""

    office: Office
    board: Board
    url: str
    # The most blocks that it takes in at once.
    window: int = 1_000
    is_down: bool = False

    @property
    def signer(self) -> Address:
        return self.office.context.sender_account.signer.address

    def tick(self, *, restarting: bool = False) -> list[StepResult]:
        """One turn, in windows of its own size; a reporter that is down does nothing."""
        if self.is_down:
            return []
        if restarting:
            # What was shown was memory.
            Board.__init__(self.board)
            self.office.restart()
        self.office.ingest.max_blocks = self.window
        return self.office.tick()

    def reports(self) -> dict[int, Hash]:
        """What every period says, by period."""
        with self.office.store.read_transaction() as uow:
            return {
                stored_report.report.period: stored_report.report.fingerprint
                for stored_report in uow.reports.list_latest(1000)
            }

    def signed(self) -> dict[int, Hash]:
        """What was signed for every round so far."""
        last, contract = (
            self.office.premises.round + 1,
            self.office.context.sender_account.domain.contract,
        )
        with self.office.store.read_transaction() as uow:
            statements_by_round = {
                number: uow.statements.list_for_round(contract, "report", number)
                for number in range(1, last + 1)
            }
        return {
            number: statements[0].digest
            for number, statements in statements_by_round.items()
            if statements
        }

    def lie(self) -> None:
        """Let every report that was not signed yet say something else: a lane's lowest bit."""
        with self.office.store.transaction() as uow:
            for stored_report in uow.reports.list_due():
                if stored_report.digest is None:
                    altered_data = stored_report.report.data[:-1] + bytes(
                        [stored_report.report.data[-1] ^ 1]
                    )
                    changing = update(report).where(report.c.period == stored_report.report.period)
                    uow.reports._connection.execute(changing.values(data=altered_data))


@dataclass
class Company:
    """Three reporters, of whom the contract wants two."""

    premises: Premises
    reporters: list[Reporter] = field(default_factory=list)

    @property
    def chain(self) -> Chain:
        return self.premises.chain

    @property
    def first(self) -> Reporter:
        """The one who transmits."""
        return self.reporters[0]

    @property
    def others(self) -> Sequence[Reporter]:
        return self.reporters[1:]

    def tick(self, *, restarting: bool = False) -> None:
        """Everybody signs; then the first gathers and sends."""
        for reporter in [*self.others, self.first]:
            reporter.tick(restarting=restarting)

    def period(self) -> None:
        """The next period ends, and its last block lies deep enough."""
        self.first.office.period()

    def round(self, *, restarting: bool = False) -> None:
        """One more round, from its period to its receipt."""
        before = self.premises.round
        self.period()
        self.tick(restarting=restarting)
        self.first.office.mine()
        self.tick(restarting=restarting)
        assert self.premises.round == before + 1, self.first.office.steps[-20:]


@contextmanager
def company(
    premises: Premises, stores: Sequence[Store], folder: Path, standby: Signer | None = None
) -> Iterator[Company]:
    """One reporter for each store; all sign, a quorum is two.

    The first sends; with `standby`, the second does too, from that account.
    """
    transmitters = {0: premises.keys.transmitter, 1: standby}
    signers = [
        KeySigner.open(*key_files(folder, f"signer{place}")) for place in range(len(stores))
    ]
    chosen = [signer.address for signer in signers]
    does, admin = premises.oracle.functions, premises.network.admin
    premises.chain.send(
        does.setSigners([to_checksum_address(signer_address) for signer_address in chosen], 2),
        sender=admin,
    )
    with ExitStack() as until_the_end:
        boards = [Board() for _ in stores]
        urls = [until_the_end.enter_context(_door(board)) for board in boards]
        opened = Company(premises)
        for place, signer in enumerate(signers):
            peers = PeerClients.from_urls(
                [url for url in urls if url != urls[place]], 0.0, SECONDS
            )
            until_the_end.callback(peers.close)
            office = Office(
                replace(premises, keys=ReporterKeys(signer, transmitters.get(place))),
                stores[place],
                folder / f"evidence{place}",
                equipment={"board": boards[place], "peers": peers},
            )
            until_the_end.callback(office.close)
            opened.reporters.append(Reporter(office, boards[place], urls[place]))
        yield opened


@contextmanager
def _door(board: Board) -> Iterator[str]:
    # Peers ask here as fast as the machine lets them.
    often = StatementsSection(requests_per_second=10_000.0)
    with serve_app(create_statements_app(board), often, 0) as url:
        yield url


def second_transmitter(premises: Premises, folder: Path) -> Signer:
    """Another key with ether."""
    signer = KeySigner.open(*key_files(folder, "second"))
    premises.chain.rpc("anvil_setBalance", signer.address, hex(ETHER))
    return signer
