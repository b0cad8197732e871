"""Posted objections: those that are rejected before storage, and the limits on paid calls."""

from dataclasses import replace
from typing import Any

import pytest

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import Objected
from oracle.domain.fold.working_set import KickoutDue
from oracle.domain.reports.contract_state import ContractChanges
from oracle.domain.state import Membership, create_node
from oracle.kickouts.objection_intake import (
    RESERVED_GAS,
    IntakeSettings,
    ObjectionIntake,
    ObjectionRefusal,
    ObjectionRefusedError,
)
from oracle.signing.local import KeySigner
from oracle.signing.typed_data import Domain, ObjectionStatement
from oracle.store.database import Store
from tests.support.due_nodes import DUE_SINCE, HEAD, OPENED, POOL, RULES, store_nodes
from tests.support.rounds import make_address

KEYS = [KeySigner(bytes(31) + bytes([number])) for number in (1, 2, 3)]
KEY = KEYS[0]
DOMAIN = Domain(31337, make_address(0xEE))
SETTINGS = IntakeSettings(DOMAIN, RULES, posts_per_hour=30, daily_gas=5_000_000)
NOW = 1_000_000


@pytest.fixture(autouse=True)
def _due_nodes(store: Store) -> None:
    """Write three due nodes whose keys are known, and one that left."""
    store_nodes(store, 2, 1)
    with store.transaction() as uow:
        for seat, key in enumerate(KEYS, start=2):
            row = replace(
                create_node(key.address, seat, 0, 0),
                membership=Membership.MEMBER,
                pool=bytes(POOL),
                kickout_due_since=OPENED,
                kickout_due_time=DUE_SINCE,
            )
            uow.nodes.save([row])
            uow.kickouts.save_intervals([KickoutDue(key.address, OPENED, None)])


def post(
    store: Store,
    *,
    key: KeySigner = KEY,
    signer: KeySigner | None = None,
    now: int = NOW,
    settings: IntakeSettings = SETTINGS,
    **changes: Any,
) -> None:
    statement = ObjectionStatement(key.address, DUE_SINCE, 2, "not me", 0, HEAD.time + 60)
    statement = replace(statement, **changes)
    signature = (signer or key).sign_objection(statement, DOMAIN)
    ObjectionIntake(store, settings).accept(statement, signature, now)


def refusal_of(store: Store, **post_arguments: Any) -> ObjectionRefusal | None:
    try:
        post(store, **post_arguments)
    except ObjectionRefusedError as error:
        return error.refusal
    return None


def object_on_chain(store: Store, seq: int, due_since: int) -> None:
    event = Objected(
        Position(50, 0, seq), DUE_SINCE, KEY.address, due_since, 0, seq, "on the chain"
    )
    with store.transaction() as uow:
        uow.rounds.save_changes(ContractChanges(objections=[event]))


def count_stored(store: Store) -> int:
    with store.read_transaction() as uow:
        return uow.objection_inbox.count_posted_within(0, 2 * NOW)


def test_posted_objection_is_stored_as_signed(store: Store):
    post(store, text="ä \0 <b>")
    with store.read_transaction() as uow:
        (posted,) = uow.objection_inbox.list_for_node(KEY.address)
    assert (posted.text, posted.received_at, posted.ended_at) == ("ä \0 <b>", NOW, None)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"node": make_address(0xAB)}, ObjectionRefusal.NOT_MEMBER),
        ({"due_since": DUE_SINCE + 1}, ObjectionRefusal.NOT_DUE),
        ({"node": make_address(2)}, ObjectionRefusal.NOT_DUE),
        ({"seq": 1}, ObjectionRefusal.WRONG_SEQ),
        ({"deadline": HEAD.time}, ObjectionRefusal.EXPIRED),
        ({"signer": KEYS[1]}, ObjectionRefusal.NOT_SIGNED_BY_NODE),
    ],
)
def test_rejected_objection_returns_reason_and_is_not_stored(
    store: Store, changes: dict[str, Any], refusal: ObjectionRefusal
):
    assert refusal_of(store, **changes) is refusal
    assert count_stored(store) == 0


def test_objection_signed_for_another_contract_is_rejected(store: Store):
    elsewhere = replace(SETTINGS, domain=replace(DOMAIN, chain_id=1))
    assert refusal_of(store, settings=elsewhere) is ObjectionRefusal.NOT_SIGNED_BY_NODE


def test_second_objection_is_rejected_while_first_is_pending(store: Store):
    post(store)
    assert refusal_of(store, text="again") is ObjectionRefusal.ALREADY_OBJECTED
    assert count_stored(store) == 1


def test_objection_is_rejected_if_one_is_already_on_chain(store: Store):
    object_on_chain(store, 0, DUE_SINCE)
    assert refusal_of(store, seq=1) is ObjectionRefusal.ALREADY_OBJECTED


def test_next_objection_number_follows_the_one_on_chain(store: Store):
    object_on_chain(store, 6, DUE_SINCE - 100)
    assert refusal_of(store, seq=0) is ObjectionRefusal.WRONG_SEQ
    assert refusal_of(store, seq=7) is None


def test_withdrawn_objection_can_be_posted_again(store: Store):
    post(store)
    with store.transaction() as uow:
        (posted,) = uow.objection_inbox.list_for_node(KEY.address)
        uow.objection_inbox.mark_ended(posted, NOW, "reverted")
    assert refusal_of(store) is None


@pytest.mark.parametrize(
    ("limits", "seconds", "refusal"),
    [
        ({"posts_per_hour": 2}, 3600, ObjectionRefusal.HOURLY_LIMIT),
        ({"daily_gas": 3 * RESERVED_GAS - 1}, 86_400, ObjectionRefusal.DAILY_GAS),
    ],
)
@pytest.mark.parametrize("is_clock_corrected", [False, True])
def test_objection_over_rate_limit_is_rejected_with_calldata(
    store: Store,
    limits: dict[str, Any],
    seconds: int,
    refusal: ObjectionRefusal,
    *,
    is_clock_corrected: bool,
):
    """The clock may also have run ahead when the first objections were posted."""
    settings = replace(SETTINGS, **limits)
    for key in KEYS[:2]:
        post(store, key=key, settings=settings)
    with pytest.raises(ObjectionRefusedError) as refused:
        post(store, key=KEYS[2], settings=settings, now=NOW + seconds)
    assert refused.value.refusal is refusal
    assert KEYS[2].address[2:] in str(refused.value.calldata)
    now = NOW - seconds - 1 if is_clock_corrected else NOW + seconds + 1
    assert refusal_of(store, key=KEYS[2], settings=settings, now=now) is None
