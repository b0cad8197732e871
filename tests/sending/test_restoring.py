"""A daemon that comes back: after an hour, after a reorg, with an old database or with none."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from oracle.errors import InputError, TransientError
from oracle.services.adopting.adopting import adopt, look
from oracle.services.desk import Desk
from oracle.services.planning import plan_push
from oracle.services.publishing import publish_next
from oracle.services.reconciling import reconcile
from oracle.services.timing.waiting import why_waiting
from oracle.store.outbox_rows import IntentKind, IntentState, SlotState
from oracle.store.store import Store
from tests.office import FINALITY, SETTINGS, Office
from tests.sending import faults
from tests.sending.proxy import Proxy
from tests.services.conftest import NewStore

HOUR = 3600
COUNT = "eth_getTransactionCount"


def copied(office: Office, folder: Path) -> Store:
    """The database as it is now, as a backup has it."""
    url = office.store._url
    assert url.database is not None
    copy = folder / "copy.sqlite"
    with closing(sqlite3.connect(url.database)) as original, closing(sqlite3.connect(copy)) as to:
        original.backup(to)
    return Store.open(f"sqlite:///{copy}")


def blank(office: Office, fresh: Store) -> Store:
    """A database of the same chain that knows nothing, under the same lease."""
    with office.store.reading() as unit:
        identity = unit.identity.get()
    assert identity is not None
    with fresh.transaction() as unit:
        unit.identity.set(identity)
        assert unit.lease.take("test", 3600) == office.epoch
    return fresh


def refused(office: Office, store: Store) -> Desk:
    """What a daemon has before it that starts with this database, and is refused."""
    with pytest.raises(InputError, match="outbox adopt --from-chain"):
        office.restart(store=store)
    return office.desk


def next_nonce(desk: Desk) -> int | None:
    with desk.store.reading() as unit:
        return unit.outbox.senders.next_nonce(desk.account)


def adopted(office: Office) -> dict[int, str | None]:
    """What is written down of each adopted nonce."""
    return {one.nonce or 0: one.error_text for one in office.intents(IntentKind.ADOPTED)}


def test_case_f07_a_transaction_mined_during_an_hour_of_downtime_is_recognised_and_not_repeated(
    office: Office,
):
    office.period()
    office.tick()
    office.close()
    premises = office.premises
    premises.chain.mine()
    premises.chain.later(HOUR)
    premises.chain.mine()
    assert premises.nonce == 2

    office.open()
    with office.store.reading() as unit:
        slot = unit.outbox.slots.watched(office.desk.account)[0]
    done = office.until_final()

    with office.store.reading() as unit:
        attempts = unit.outbox.slots.attempts(slot)
    assert "push final" in [step.did for step in done]
    assert [one.sends for one in attempts] == [1]
    assert office.intents(IntentKind.PUSH)[0].state is IntentState.FINAL
    assert premises.round == 1


def test_case_f32_a_reorg_during_downtime_is_found_at_the_restart_and_the_bytes_are_sent_again(
    office: Office,
):
    office.period()
    office.tick()
    office.mine()
    office.tick()
    assert office.states() == ["mined"]
    with office.store.reading() as unit:
        (slot,) = unit.outbox.slots.watched(office.desk.account)
        (before,) = unit.outbox.slots.attempts(slot)
    office.close()
    chain = office.premises.chain
    chain.rpc("anvil_reorg", 1, [])
    chain.rpc("anvil_dropTransaction", before.signed.tx_hash)
    office.mine(2)
    assert office.premises.round == 0

    office.open()
    office.tick()
    assert office.journal().count("reorged") == 1
    office.mine()
    office.until_final()

    with office.store.reading() as unit:
        at = unit.outbox.slots.at(office.desk.account, slot.nonce)
        assert at is not None
        (after,) = unit.outbox.slots.attempts(at)
    assert (after.signed, at.state) == (before.signed, SlotState.FINAL)
    assert after.sends > before.sends
    assert office.premises.round == 1


def test_case_f19_an_old_copy_is_refused_until_what_the_chain_has_seen_is_adopted(
    sqlite_office: Office, tmp_path: Path
):
    office = sqlite_office
    office.pushed()
    with copied(office, tmp_path) as copy:
        office.pushed()
        sent = office.intents(IntentKind.PUSH)[-1]
        desk = refused(office, copy)
        assert (next_nonce(desk), office.premises.nonce) == (2, 3)

        found = look(desk, 1000)
        assert (found.known, found.mined, found.nonces) == (2, 3, range(2, 3))
        assert found.signing is not None
        assert found.signing.round == 2
        adopt(desk, found, "somebody")

        assert next_nonce(desk) == 3
        assert found.spent[2].hash in (adopted(office)[2] or "")
        assert sent.nonce == 2
        # Nothing is signed while what the lost copy signed may still land, and that is told.
        office.restart()
        assert "keeps quiet until chain time" in (why_waiting(office.desk) or "")
        office.period()
        office.tick()
        office.mine()
        assert (office.premises.nonce, office.premises.round) == (3, 2)
        office.premises.chain.later(SETTINGS.ttl_seconds)
        while office.premises.round == 2:
            assert len(office.reports()) < 20, office.steps
            office.period()
            office.tick()
            office.mine()
        assert (office.premises.nonce, office.premises.round) == (4, 3)
        assert why_waiting(office.desk) is None


def test_case_f19_a_lost_database_gives_no_nonce_out_again(office: Office, new_store: NewStore):
    office.pushed()
    office.pushed()
    with new_store() as fresh:
        desk = refused(office, blank(office, fresh))
        found = look(desk, 1000)
        assert (found.known, found.mined) == (None, 3)
        assert set(found.spent) == {0, 1, 2}
        adopt(desk, found, "somebody")

        assert next_nonce(desk) == 3
        assert adopted(office).keys() == {0, 1, 2}
        with fresh.reading() as unit:
            quiet = unit.outbox.signatures.quiet_until(
                desk.publisher.domain.chain_id,
                desk.publisher.domain.contract,
                desk.publisher.signer.address,
            )
        assert quiet == office.premises.chain.time + SETTINGS.ttl_seconds
        office.restart()
        assert look(office.desk, 1000).is_nothing


def test_case_f19_one_endpoint_alone_that_counts_higher_stops_the_sending_and_changes_nothing(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office = proxied_office
    proxies[0].rule(COUNT, faults.moved_by(5))
    with pytest.raises(TransientError, match="until another endpoint says the same"):
        reconcile(office.desk)
    with pytest.raises(InputError, match="two endpoints have to agree"):
        look(office.desk, 100)
    proxies[1].rule(COUNT, faults.moved_by(5))
    with pytest.raises(InputError, match="outbox adopt --from-chain"):
        reconcile(office.desk)
    assert proxies[0].sent == proxies[1].sent == []
    proxies[0].heal()
    proxies[1].heal()
    assert reconcile(office.desk) is None


def test_a_nonce_that_waits_in_the_pool_is_counted_and_not_looked_for_in_blocks(
    office: Office, new_store: NewStore
):
    office.period()
    office.tick()
    with new_store() as fresh:
        desk = refused(office, blank(office, fresh))
        found = look(desk, 1000)
        adopt(desk, found, "somebody")
        assert (found.mined, found.pending, next_nonce(desk)) == (1, 2, 2)
        assert adopted(office)[1] is None


def test_what_was_adopted_in_the_pool_and_dropped_there_is_filled_and_strands_nobody(
    office: Office, new_store: NewStore
):
    office.period()
    office.tick()
    chain = office.premises.chain
    (lost,) = chain.rpc("eth_getBlockByNumber", "pending", False)["transactions"]
    with new_store() as fresh:
        desk = refused(office, blank(office, fresh))
        adopt(desk, look(desk, 1000), "somebody")
        office.restart(store=fresh)
        # It waits: nothing is wrong.
        assert look(office.desk, 1000).is_nothing

        chain.rpc("anvil_dropTransaction", lost)
        chain.later(SETTINGS.ttl_seconds)
        while "live" not in office.states(IntentKind.PUSH):
            assert len(office.reports()) < 20, office.steps
            office.period()
            office.tick()
        office.mine(3)
        assert (office.premises.nonce, next_nonce(office.desk)) == (1, 3)
        with pytest.raises(TransientError, match=r"in no pool any more: 1; .* adopt --from-chain"):
            reconcile(office.desk)

        found = look(office.desk, 1000)
        assert (found.nonces, found.dropped, found.signing) == (range(3, 3), [1], None)
        adopt(office.desk, found, "somebody")
        office.tick()
        office.mine()
        office.until_final()

        noops = [(one.nonce, one.state) for one in office.intents(IntentKind.NOOP)]
        assert noops == [(1, IntentState.FINAL)]
        assert office.intents(IntentKind.PUSH)[0].state is IntentState.FINAL
        assert (office.premises.nonce, office.premises.round) == (3, 1)
        assert look(office.desk, 1000).is_nothing


def test_what_lies_deeper_than_the_walk_is_adopted_without_a_hash(
    sqlite_office: Office, tmp_path: Path
):
    office = sqlite_office
    with copied(office, tmp_path) as copy:
        office.pushed()
        office.mine(5)
        office.pushed()
        desk = refused(office, copy)
        found = look(desk, 3)
        adopt(desk, found, "somebody")
        assert next_nonce(desk) == 3
        assert [text is None for text in adopted(office).values()] == [True, False]


def test_a_call_whose_nonce_the_lost_database_used_for_another_is_over_and_nobody_is_alarmed(
    sqlite_office: Office, tmp_path: Path
):
    office = sqlite_office
    office.period()
    office.index()
    office.repeat(plan_push)
    while office.states() != ["assigned"]:
        assert publish_next(office.desk, office.source.heads()) is not None
    with copied(office, tmp_path) as copy:
        # The lost one signs for the nonce and sends; the copy has given it out, and no more.
        office.tick()
        office.mine(FINALITY + 1)
        office.restart(store=copy)
        found = look(office.desk, 1000)
        assert (list(found.overtaken), found.nonces) == ([1], range(2, 2))
        adopt(office.desk, found, "somebody")
        office.tick()
        with copy.reading() as unit:
            slot = unit.outbox.slots.at(office.desk.account, 1)
            assert unit.outbox.senders.paused_because(office.desk.account) is None
        assert slot is not None
        assert (slot.state, slot.gas_used) == (SlotState.FINAL, found.spent[1].gas_used)
        (push,) = office.intents(IntentKind.PUSH)[:1]
        assert (push.state, push.superseded_by) == (IntentState.SUPERSEDED, slot.intent_id)


def test_a_hole_in_what_was_given_out_is_refused_and_not_mended(sqlite_office: Office):
    office = sqlite_office
    with office.desk.writing() as unit:
        outbox, account = unit.outbox, office.desk.account
        for nonce in (1, 3):
            outbox.slots.adopt(account, nonce, None, None, office.desk.stamp)
        outbox.senders.adopt(account, 4, office.desk.stamp)
    with pytest.raises(InputError, match=r"lost nonces of .* that it gave out: 2;"):
        reconcile(office.desk)
    with office.store.reading() as unit:
        assert unit.outbox.slots.missing(office.desk.account, 4) == [2]


def test_a_new_account_is_enrolled_where_two_endpoints_say_that_it_never_sent(
    proxied_office: Office, proxies: tuple[Proxy, Proxy], new_sqlite_store: NewStore
):
    office = proxied_office
    proxies[1].rule(COUNT, faults.status(503), times=1)
    for proxy in proxies:
        proxy.rule(COUNT, faults.says("0x0"))
    with new_sqlite_store() as fresh:
        desk = replace(office.desk, store=blank(office, fresh))
        with pytest.raises(TransientError, match="another endpoint says the same"):
            reconcile(desk)
        assert next_nonce(desk) is None
        step = reconcile(desk)
        assert (step and step.did, next_nonce(desk)) == ("enrolled", 0)
