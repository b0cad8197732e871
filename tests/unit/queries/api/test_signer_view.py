"""Which signers of the contract signed which of its newest rounds."""

from dataclasses import replace
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import ConfigSet, RoundAccepted, SignersSet
from oracle.domain.ids import ZERO_HASH, Address, Hash
from oracle.domain.reports.contract_state import ContractChanges
from oracle.queries.api.records.round_view import MAX_ROUNDS, SignersAnswer, list_signers
from oracle.queries.api.source import open_snapshot
from oracle.store.outbox.records import SignedStatement, Stamp
from tests.support.api import IDENTITY, IndexedHistory
from tests.support.examples import examples
from tests.support.histories import History
from tests.support.rounds import CONFIG, build_accepted_round, make_address

SIGNERS = tuple(make_address(number) for number in (7, 8, 9))
QUORUM = 2
_BLOCK_HASH = Hash("0x" + 64 * "b")
_OTHER_BLOCK = Hash("0x" + 64 * "d")
_OTHER_ROOT = Hash("0x" + 64 * "e")
_DIGESTS = count(1)


def accept_rounds(indexed: IndexedHistory, bitmaps: list[int]) -> list[RoundAccepted]:
    """Let the contract set its signers, and accept rounds that these bitmaps signed."""
    rounds = [
        replace(build_accepted_round(number, as_of_hash=_BLOCK_HASH), signer_bitmap=bitmap)
        for number, bitmap in enumerate(bitmaps, start=1)
    ]
    changes = ContractChanges(
        accepted=rounds,
        settings=[
            SignersSet(Position(0, 0, 1), 0, SIGNERS, QUORUM),
            ConfigSet(Position(0, 0, 2), 0, 1, CONFIG),
        ],
    )
    with indexed.store.transaction() as uow:
        uow.rounds.save_changes(changes)
    return rounds


def store_statement(
    indexed: IndexedHistory, signer: Address, number: int, as_of_hash: Hash, root: Hash
) -> None:
    """Store a statement of a signer about a round, as received from a peer."""
    statement = SignedStatement(
        chain_id=IDENTITY.chain_id,
        contract=Address(IDENTITY.oracle or ""),
        signer=signer,
        round=number,
        digest=Hash(f"0x{next(_DIGESTS):064x}"),
        signature=bytes(65),
        config=CONFIG,
        prev=ZERO_HASH,
        as_of_block=1,
        as_of_hash=as_of_hash,
        deadline=9,
        root=root,
    )
    with indexed.store.transaction() as uow:
        uow.peer_statements.add(statement, "peer", Stamp(0, 0))


def load_answer(indexed: IndexedHistory) -> SignersAnswer:
    with open_snapshot(indexed.source) as snapshot:
        return list_signers(snapshot)


@pytest.fixture
def indexed(store):
    return IndexedHistory(store).whole(History().joins("A"))


@settings(examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    bitmaps=st.lists(st.integers(1, 7), min_size=1, max_size=MAX_ROUNDS + 2),
    statements=st.lists(
        st.tuples(
            st.sampled_from(SIGNERS),
            st.integers(1, MAX_ROUNDS + 2),
            st.sampled_from([_BLOCK_HASH, _OTHER_BLOCK]),
            st.sampled_from([None, _OTHER_ROOT]),
        ),
        max_size=10,
    ),
)
def test_signer_state_follows_from_chain_and_statements(new_sqlite_store, bitmaps, statements):
    with new_sqlite_store() as store:
        indexed = IndexedHistory(store).whole(History().joins("A"))
        root_by_round = {entry.round: entry.root for entry in accept_rounds(indexed, bitmaps)}
        signed = [
            (signer, number, as_of_hash, root or root_by_round.get(number, _OTHER_ROOT))
            for signer, number, as_of_hash, root in statements
        ]
        for statement in signed:
            store_statement(indexed, *statement)
        answer = load_answer(indexed)

    def find_state(index: int, number: int) -> str:
        if bitmaps[number - 1] & 1 << index:
            return "agrees"
        roots = {
            root
            for signer, about, as_of_hash, root in signed
            if (signer, about, as_of_hash) == (SIGNERS[index], number, _BLOCK_HASH)
        }
        if root_by_round[number] in roots:
            return "agrees"
        return "differs" if roots else "not signed"

    numbers = sorted(root_by_round, reverse=True)[:MAX_ROUNDS]
    assert [
        (entry.signer, [(row.round, row.state.value) for row in entry.rounds])
        for entry in answer.signers
    ] == [
        (signer, [(number, find_state(index, number)) for number in numbers])
        for index, signer in enumerate(SIGNERS)
    ]
    assert (answer.quorum, answer.newest_round) == (QUORUM, len(bitmaps))
    assert answer.newest_signatures == sum(
        find_state(index, len(bitmaps)) == "agrees" for index in range(len(SIGNERS))
    )


def test_signer_view_without_signers_or_rounds_is_empty(indexed):
    answer = load_answer(indexed)
    assert (answer.quorum, answer.newest_round, answer.signers) == (None, None, [])


@pytest.mark.parametrize(
    ("bitmap", "headline", "consequence"),
    [
        (0b111, "Three of three signers signed round 1; two are needed.", "If two of them stop"),
        (0b101, "Two of three signers signed round 1; two are needed.", "If one of them stops"),
    ],
)
def test_page_shows_number_of_signers_that_may_fail(indexed, bitmap, headline, consequence):
    accept_rounds(indexed, [bitmap])
    text = indexed.client().get("/signers").text
    assert f"<h1>{headline}</h1>" in text
    assert consequence in text


def test_page_lists_rounds_with_missing_or_differing_signatures(indexed):
    accept_rounds(indexed, [0b11, 0b11, 0b111])
    store_statement(indexed, SIGNERS[2], 2, _BLOCK_HASH, _OTHER_ROOT)
    text = indexed.client().get("/signers").text
    (row,) = [row for row in text.split("<tr>") if SIGNERS[2] in row]
    assert 'data-label="Not signed">1<' in row
    assert 'data-label="Another root">2<' in row
