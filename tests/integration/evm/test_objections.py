"""Objections on a real chain: indexed, undone, answered; they delay an accusation, and no root."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from oracle.bindings.objections import CONTRACT, encode_signed_objection_call
from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.events.oracle_events import Objected
from oracle.domain.ids import Address
from oracle.domain.reports.kickout_policy import ObjectionTerms
from oracle.reporting.recompute import fold_round_tree
from oracle.signing.typed_data import Domain, ObjectionStatement, build_objection_typed_data
from oracle.store.outbox.records import ACCUSE, EXECUTE_KICK
from oracle.store.state.objection_repository import ObjectionAnswer
from tests.integration.evm.test_kickout_on_chain import (
    fill_bad_pool,
    get_stated_due_since,
    group,
    kick,
    node_two,
    pass_veto_delay,
    run_until_due_is_stated,
    standing,
)
from tests.support import harness as harnesses
from tests.support.evm.fixtures import chain
from tests.support.evm.network import Standing
from tests.support.harness import CHAIN_ID, Harness, OracleTestbed
from tests.support.txmgr.harness_fixtures import fresh_chain, fresh_testbed, testbed
from tests.support.txmgr.stores import NewStore, new_sqlite_store

pytestmark = [pytest.mark.evm, pytest.mark.slow]

__all__ = ["chain", "fresh_chain", "fresh_testbed", "new_sqlite_store", "testbed"]

TERMS = ObjectionTerms(window=36_000, answer=72_000, ignored=100_000)


@dataclass
class Hearing:
    """A harness that indexes objections; the kickout of node 2 is due."""

    harness: Harness
    contract: Any

    @property
    def testbed(self) -> OracleTestbed:
        return self.harness.testbed

    @property
    def node(self) -> str:
        return str(self.testbed.network.nodes[2])

    @property
    def due_since(self) -> int:
        return get_stated_due_since(self.harness)

    def object(self, words: str = "not me", due_since: int = 0) -> None:
        call = self.contract.functions.object(due_since or self.due_since, 0, words)
        self.testbed.chain.send(call, sender=self.node)

    @property
    def domain(self) -> Domain:
        return Domain(CHAIN_ID, Address(self.contract.address.lower()))

    def sign(self, statement: ObjectionStatement) -> bytes:
        """Let the node's wallet sign an objection."""
        typed_data = build_objection_typed_data(statement, self.domain)
        signature = self.testbed.chain.rpc("eth_signTypedData_v4", self.node, typed_data)
        return bytes.fromhex(signature[2:])

    def send_signed_objection(self, statement: ObjectionStatement) -> None:
        """Send a signed objection from another account."""
        calldata = encode_signed_objection_call(statement, self.sign(statement))
        self.testbed.chain.transact(to=self.contract.address, data=calldata)

    def listed(self) -> list[Objected]:
        self.harness.index()
        with self.harness.store.read_transaction() as uow:
            return uow.objections.list_for_node(node_two(self.harness))

    def answer(self, *, is_accepted: bool) -> None:
        with self.harness.store.transaction() as uow:
            uow.objections.save_answer(
                ObjectionAnswer(
                    node_two(self.harness), self.due_since, is_accepted, "the log shows it", 0
                )
            )

    def tick(self) -> None:
        self.harness.tick()
        self.harness.mine()
        self.harness.tick()


@pytest.fixture
def hearing(
    testbed: OracleTestbed, new_sqlite_store: NewStore, tmp_path: Path
) -> Iterator[Hearing]:
    contract = testbed.chain.deploy(CONTRACT, testbed.oracle.address)
    with new_sqlite_store() as store:
        objections = Address(contract.address.lower())
        evidence = tmp_path / "evidence"
        equipment = {"objection_terms": TERMS}
        harness = Harness(testbed, store, evidence, objections=objections, equipment=equipment)
        fill_bad_pool(harness)
        run_until_due_is_stated(harness)
        yield Hearing(harness, contract)
        harness.close()


def check_roots_without_objections(hearing: Hearing) -> None:
    """Check that a reporter that does not index objections has the root of every round."""
    testbed, store = hearing.testbed, hearing.harness.store
    contracts = {"TaskNetwork": Address(testbed.network.contract.address.lower())}
    plain = EventReader.from_profile("reference", contracts, testbed.address)
    with store.read_transaction() as uow:
        rounds = uow.rounds.list_accepted()
        assert rounds
        for accepted in rounds:
            tree = fold_round_tree(uow, plain, accepted, harnesses.RULES)
            assert tree is not None
            numbers = (accepted.round, accepted.as_of)
            root = tree.compute_round_root(CHAIN_ID, testbed.address, *numbers)
            assert root == accepted.root


def test_accusation_waits_until_the_objection_is_rejected(hearing: Hearing):
    harness = hearing.harness
    hearing.tick()
    assert harness.intents(ACCUSE) == []

    hearing.object()
    hearing.tick()
    assert harness.intents(ACCUSE) == []

    hearing.answer(is_accepted=False)
    hearing.tick()
    assert kick(harness)["live"]
    check_roots_without_objections(hearing)


def test_accepted_objection_prevents_the_accusation(hearing: Hearing):
    hearing.object()
    hearing.listed()
    hearing.answer(is_accepted=True)
    hearing.testbed.chain.later(TERMS.window + TERMS.answer)
    hearing.harness.pushed()
    hearing.tick()
    assert hearing.due_since
    assert hearing.harness.intents(ACCUSE) == []
    check_roots_without_objections(hearing)


def test_indexed_objections_do_not_change_the_root(hearing: Hearing):
    due_since = hearing.due_since
    signed = ObjectionStatement(node_two(hearing.harness), due_since, 2, "ä \0", 0, 2**40 - 1)
    hearing.send_signed_objection(signed)
    hearing.object("by myself", due_since)
    hearing.testbed.chain.later(TERMS.window + 1)
    hearing.object("too late", due_since)
    group(hearing.harness, 50, (0, 1, 2))
    hearing.harness.pushed()

    listed = hearing.listed()
    assert [objection.seq for objection in listed] == [2, 1, 0]
    assert [objection.due_since for objection in listed] == 3 * [due_since]
    assert [objection.text for objection in listed[:2]] == ["too late", "by myself"]
    with hearing.harness.store.read_transaction() as uow:
        assert not uow.dead_letters.has_open(0, 2**40)
    check_roots_without_objections(hearing)


def test_objection_in_reorged_block_is_reindexed(hearing: Hearing):
    rpc, due_since = hearing.testbed.chain.rpc, hearing.due_since
    before = rpc("evm_snapshot")
    hearing.object("in a block that does not stay", due_since)
    assert len(hearing.listed()) == 1

    rpc("evm_revert", before)
    hearing.harness.mine(3)
    assert hearing.listed() == []

    hearing.object("again", due_since)
    (again,) = hearing.listed()
    assert (again.seq, again.text) == (0, "again")


@pytest.mark.parametrize(
    "is_before",
    [
        pytest.param(True, id="before"),
        pytest.param(False, id="after", marks=pytest.mark.nightly),
    ],
)
def test_objection_in_the_block_of_the_execution_changes_nothing(
    hearing: Hearing, *, is_before: bool
):
    harness, chain = hearing.harness, hearing.testbed.chain
    hearing.object()
    hearing.listed()
    hearing.answer(is_accepted=False)
    hearing.tick()
    due_since = hearing.due_since
    pass_veto_delay(harness)
    harness.tick()
    assert harness.states(EXECUTE_KICK) == ["live"]

    # Anvil orders the transactions of a block by their fees.
    objection = chain.request(
        hearing.contract.functions.object(due_since, 0, "late"), sender=hearing.node
    )
    price = 10**12 if is_before else 1
    objection |= {"maxPriorityFeePerGas": hex(price), "maxFeePerGas": hex(10**12)}
    objection.pop("gasPrice", None)
    chain.rpc("eth_sendTransaction", objection)
    harness.mine()
    block = chain.rpc("eth_getBlockByNumber", hex(chain.block), False)
    harness.until_final()

    assert len(block["transactions"]) == 2
    listed = hearing.listed()
    assert [entry.text for entry in listed] == ["late", "not me"]
    assert standing(harness) is Standing.KICKED_OUT
    assert harness.states(EXECUTE_KICK) == ["final"]
    harness.pushed()
    harness.until_final()
    assert (len(harness.intents(ACCUSE)), len(harness.intents(EXECUTE_KICK))) == (1, 1)
    with harness.store.read_transaction() as uow:
        assert not uow.dead_letters.has_open(0, 2**40)
    check_roots_without_objections(hearing)
