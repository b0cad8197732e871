"""Responses of other reporters: only statements that a current signer has signed count."""

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import select

from oracle.domain.ids import Address, Hash
from oracle.quorum.peer_client import PeerClients
from oracle.quorum.statements import build_statement_record, publish_statement
from oracle.quorum.wire_format import (
    Board,
    ReportMessage,
    encode_statements,
    is_genuine_message,
)
from oracle.reporting.report_planner import plan_push
from oracle.signing.signer import Signer
from oracle.signing.typed_data import Domain, ReportStatement
from oracle.store.database import Store
from oracle.store.tables.statement_tables import pub_peer_statement
from tests.integration.http.test_peers import Answer, serve_answers
from tests.support.harness import Harness, OracleTestbed
from tests.support.sending.signers import create_strangers, set_signers
from tests.support.txmgr.stores import NewStore

HASH = Hash("0x" + 64 * "5")
SECONDS = 60.0


@dataclass
class PeerExchange:
    """A reporter whose only peer responds as a test sets, and the peer's statements."""

    harness: Harness
    peer: Signer
    stranger: Signer
    answer: Answer = (404, b"", {})
    requested_paths: list[str] = field(default_factory=list)

    def sign_message(
        self, statement: ReportStatement, domain: Domain, signer: Signer
    ) -> ReportMessage:
        """Return a genuinely signed statement in the form of `/v1/report/1`."""
        (own_message,) = self.board.get_statements(1)
        assert isinstance(own_message, ReportMessage)
        message = msgspec.structs.replace(
            own_message,
            chain_id=domain.chain_id,
            contract=domain.contract,
            round=statement.round,
            config=statement.config,
            digest=statement.compute_digest(domain),
            signer=signer.address,
            signature="0x" + signer.sign_statement(statement, domain).hex(),
        )
        assert is_genuine_message(message)
        return message

    @property
    def board(self) -> Board:
        board = self.harness.quorum.board
        assert board is not None
        return board

    @property
    def domain(self) -> Domain:
        return self.harness.context.sender_account.domain

    def get_signed_statement(self) -> ReportStatement:
        """Return the statement that our own key signed."""
        with self.harness.store.read_transaction() as uow:
            report = next(
                stored_report.report
                for stored_report in uow.reports.list_newest(10)
                if stored_report.digest
            )
        (own_message,) = self.board.get_statements(1)
        assert isinstance(own_message, ReportMessage)
        return ReportStatement(
            config=Hash(own_message.config),
            round=1,
            prev=Hash(own_message.prev),
            as_of=own_message.as_of,
            as_of_hash=Hash(own_message.as_of_hash),
            deadline=own_message.deadline,
            root=report.root,
        )

    def respond_with(self, *messages: ReportMessage) -> None:
        self.answer = (200, encode_statements(list(messages)), {})

    def list_stored_signers(self) -> list[Address]:
        """Return the signers whose statements were stored, for any round and contract."""
        with self.harness.store.read_transaction() as uow:
            chosen = select(pub_peer_statement.c.signer)
            return list(uow.peer_statements._connection.execute(chosen).scalars())

    def run_planner(self) -> list[str]:
        return [step.action for step in self.harness.repeat(plan_push)]


@pytest.fixture
def peer_exchange(
    testbed: OracleTestbed, new_sqlite_store: NewStore, tmp_path: Path
) -> Iterator[PeerExchange]:
    """Yield a reporter that has signed round 1; our key and another one form the quorum of two."""
    with new_sqlite_store() as store:
        yield from _open_exchange(testbed, store, tmp_path)


def _open_exchange(testbed: OracleTestbed, store: Store, folder: Path) -> Iterator[PeerExchange]:
    opened: list[PeerExchange] = []

    def answer(path: str) -> Answer:
        if opened:
            opened[0].requested_paths.append(path)
        return opened[0].answer if opened else (404, b"", {})

    with serve_answers(answer) as url:
        peers = PeerClients.from_urls([url], 0.0, SECONDS)
        equipment = {"board": Board(), "peers": peers}
        harness = Harness(testbed, store, folder / "evidence", equipment=equipment)
        peer, stranger = create_strangers(harness, 2)
        set_signers(harness, harness.context.sender_account.signer, peer, needed=2)
        opened.append(PeerExchange(harness, peer, stranger))
        harness.period()
        harness.index()
        assert opened[0].run_planner() == ["report signed"]
        try:
            yield opened[0]
        finally:
            peers.close()
            harness.close()


def _sign_good_message(exchange: PeerExchange) -> ReportMessage:
    return exchange.sign_message(exchange.get_signed_statement(), exchange.domain, exchange.peer)


Telling = Callable[[PeerExchange], ReportMessage]
REPLAYED: dict[str, Telling] = {
    "of another chain": lambda exchange: exchange.sign_message(
        exchange.get_signed_statement(), replace(exchange.domain, chain_id=1), exchange.peer
    ),
    "of another contract": lambda exchange: exchange.sign_message(
        exchange.get_signed_statement(),
        replace(exchange.domain, contract=Address("0x" + 40 * "9")),
        exchange.peer,
    ),
    "of another round": lambda exchange: exchange.sign_message(
        replace(exchange.get_signed_statement(), round=2), exchange.domain, exchange.peer
    ),
    "of an unknown signer": lambda exchange: exchange.sign_message(
        exchange.get_signed_statement(), exchange.domain, exchange.stranger
    ),
    "with the address of another signer": lambda exchange: msgspec.structs.replace(
        exchange.sign_message(exchange.get_signed_statement(), exchange.domain, exchange.stranger),
        signer=exchange.peer.address,
    ),
    "with a replaced digest": lambda exchange: msgspec.structs.replace(
        exchange.sign_message(
            replace(exchange.get_signed_statement(), config=HASH), exchange.domain, exchange.peer
        ),
        digest=exchange.get_signed_statement().compute_digest(exchange.domain),
    ),
}


@pytest.mark.parametrize("what", REPLAYED)
def test_replayed_signature_is_neither_counted_nor_stored(peer_exchange: PeerExchange, what: str):
    peer_exchange.respond_with(REPLAYED[what](peer_exchange))
    assert peer_exchange.run_planner() == []
    assert peer_exchange.requested_paths
    assert peer_exchange.list_stored_signers() == []
    assert peer_exchange.harness.intents() == []

    peer_exchange.respond_with(REPLAYED[what](peer_exchange), _sign_good_message(peer_exchange))
    assert peer_exchange.run_planner() == ["push planned"]
    assert peer_exchange.list_stored_signers() == [peer_exchange.peer.address]


def test_signature_for_another_configuration_is_not_counted(
    peer_exchange: PeerExchange,
):
    peer_exchange.respond_with(
        peer_exchange.sign_message(
            replace(peer_exchange.get_signed_statement(), config=HASH),
            peer_exchange.domain,
            peer_exchange.peer,
        )
    )
    assert "push planned" not in peer_exchange.run_planner()
    assert peer_exchange.list_stored_signers() == [peer_exchange.peer.address]
    assert peer_exchange.harness.intents() == []


def _list_malformed_responses(exchange: PeerExchange) -> dict[str, Answer]:
    good = encode_statements([_sign_good_message(exchange)])
    return {
        "gigabytes": (200, good + b" " * (8 << 20), {}),
        "compressed gigabytes": (
            200,
            gzip.compress(good + b" " * (64 << 20)),
            {"Content-Encoding": "gzip"},
        ),
        "HTML page": (200, b"<html>" + good, {"Content-Type": "application/json"}),
        "deeply nested": (200, b"[" * 60_000, {}),
        "nine statements": (200, encode_statements([_sign_good_message(exchange)] * 9), {}),
        "redirect": (307, b"", {"Location": "http://127.0.0.1:1/v1/report/1"}),
        "an error with a body": (500, good, {}),
        "invalid gzip": (200, good, {"Content-Encoding": "gzip"}),
    }


def test_statement_after_a_malformed_response_is_counted(peer_exchange: PeerExchange):
    for answer in _list_malformed_responses(peer_exchange).values():
        peer_exchange.answer = answer
        assert peer_exchange.run_planner() == []
        assert peer_exchange.list_stored_signers() == []
    peer_exchange.respond_with(_sign_good_message(peer_exchange))
    assert peer_exchange.run_planner() == ["push planned"]


def test_own_statement_echoed_by_a_peer_is_not_counted_twice(
    peer_exchange: PeerExchange,
):
    # The reporter's own statement, returned by a peer.
    (own_message,) = peer_exchange.board.get_statements(1)
    peer_exchange.respond_with(own_message, own_message)
    assert peer_exchange.run_planner() == []
    assert peer_exchange.list_stored_signers() == []
    assert peer_exchange.harness.intents() == []


def test_statement_board_lists_only_own_statements(peer_exchange: PeerExchange):
    peer_exchange.respond_with(_sign_good_message(peer_exchange))
    assert peer_exchange.run_planner() == ["push planned"]
    published = peer_exchange.board.get_statements(1)
    assert [message.signer for message in published] == [
        peer_exchange.harness.context.sender_account.signer.address
    ]
    # It is counted once, however often it is returned.
    statement = peer_exchange.get_signed_statement()
    with peer_exchange.harness.store.read_transaction() as uow:
        (signed,) = uow.statements.list_for_round(peer_exchange.domain.contract, 1)
    publish_statement(
        peer_exchange.harness.quorum,
        replace(
            build_statement_record(peer_exchange.harness.quorum, statement),
            signature=signed.signature,
        ),
    )
    assert len(peer_exchange.board.get_statements(1)) == 1
