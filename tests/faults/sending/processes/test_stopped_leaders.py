"""Leaders are stopped (SIGSTOP) at random moments during successive rounds.

Two processes work on one database. The leader is stopped, its lease expires, and the other process
takes over and finishes. Then the first one continues, exits, and is started again as the standby.
"""

import json
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

import pytest
from sqlalchemy import select, text

from devnet.demo.show import DemoKey
from oracle.errors import TransientError
from oracle.store import engine
from oracle.store.database import Store
from oracle.store.outbox.records import PENDING_STATES
from oracle.store.tables.outbox_tables import pub_journal
from tests.integration.reporters.member import Member
from tests.integration.reporters.reporter_group import ReporterGroup
from tests.integration.reporters.waiting import PATIENCE_SECONDS, wait_until
from tests.support.cli.local_network import LocalNetwork, run_local_network
from tests.support.sending.faults import Fault, Question
from tests.support.sending.proxy import EVERY, Proxy, run_proxy

pytestmark = pytest.mark.timeout(900)

TAKEOVERS = 5
# The maximum delay of a moment after a request, longer than any write takes.
_AFTER_SECONDS = 0.03
_POLL_SECONDS = 0.05
# Far more than needed to complete a write in which it was stopped.
_MAX_POLLS = 1000
# The messages of a leader that lost its lease, and of one that stalled for too long.
_LOST = ("has taken over the lease", "the lease could not be renewed")


@dataclass(frozen=True)
class Seat:
    """One of the two processes, and the proxy through which it reaches the chain."""

    member: Member
    endpoint_proxy: Proxy

    def stopped_after(self, questions: int, seconds: float) -> None:
        """Stop the process once, `seconds` after a number of further requests."""

        def soon(request: Question) -> Question:
            Timer(seconds, self.member.pause).start()
            return request

        self.endpoint_proxy.rule(EVERY, Fault(ask=soon), times=1, skip=questions)


@contextmanager
def run_leader_and_standby(
    network: LocalNetwork, folder: Path, url: str
) -> Iterator[tuple[ReporterGroup, list[Seat]]]:
    """Yield two processes with the same keys on one database; the first one leads."""
    with ExitStack() as until_the_end:
        seats = []
        for name in ("one", "two"):
            endpoint_proxy = until_the_end.enter_context(run_proxy(network.url))
            settings = network.settings(folder / name)
            settings["database"]["url"] = url
            settings["chain"].update(endpoints=[endpoint_proxy.url], poll_seconds=0.2)
            member = Member(name, folder / name, settings, keys=read_contract_keys(network))
            until_the_end.callback(member.close)
            seats.append(Seat(member, endpoint_proxy))
        reporter_group = ReporterGroup(network, [seat.member for seat in seats])
        for member in reporter_group.members:
            member.start("--standby")
            member.wait_for_line(
                "daemon_started" if member is reporter_group.members[0] else "waiting_for_lease"
            )
        yield reporter_group, seats


def read_contract_keys(network: LocalNetwork) -> dict[str, DemoKey]:
    """Return the keys that the contract knows."""
    key_by_role = {}
    for role in ("signer", "transmitter"):
        files = (network.keys / f"{role}.json", network.keys / f"{role}.password")
        key_by_role[role] = DemoKey(*files, json.loads(files[0].read_text("utf-8"))["address"])
    return key_by_role


def test_case_f41_each_round_is_accepted_once_with_stopped_leaders(
    tmp_path: Path, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.2)
    url = empty_database_url
    (tmp_path / "keys").mkdir()
    with (
        run_local_network(tmp_path / "keys") as network,
        run_leader_and_standby(network, tmp_path, url) as (reporter_group, seats),
        Store.open(url) as store,
    ):
        request_count = count_requests_of_round(reporter_group, seats[0], store)
        for number in range(TAKEOVERS):
            # Not for secrets: the moments differ between the engines, and are the same in each
            # run.
            chance = random.Random(f"{url[:6]} {number}")  # noqa: S311
            leading, heir = seats
            leading.stopped_after(
                chance.randrange(request_count), chance.uniform(0, _AFTER_SECONDS)
            )
            landed = reporter_group.round
            run_round_until_leader_stops(reporter_group, leading.member)
            expire_stopped_leader_lease(store, leading.member)
            heir.member.until_started()
            reporter_group.landed(landed + 1)
            mine_until_idle(reporter_group, store)

            leading.member.resume()
            network.mine(1)
            assert_exited_without_lease(leading.member)
            leading.member.start("--standby")
            leading.member.wait_for_line("waiting_for_lease")
            seats.reverse()
        assert_rounds_landed_once(reporter_group, store)


def count_requests_of_round(reporter_group: ReporterGroup, seat: Seat, store: Store) -> int:
    """Return the leader's number of requests from the end of a period to its round's finality."""
    seat.endpoint_proxy.forget()
    reporter_group.due()
    reporter_group.landed(1)
    mine_until_idle(reporter_group, store)
    return len(seat.endpoint_proxy.received_requests)


def run_round_until_leader_stops(reporter_group: ReporterGroup, leader: Member) -> None:
    """Run a round from due to final, until the leader is stopped."""
    reporter_group.due()
    before = reporter_group.round
    end = time.monotonic() + PATIENCE_SECONDS
    while not leader.is_paused:
        assert leader.is_up, leader.tail()
        assert time.monotonic() < end, leader.tail()
        if reporter_group.is_sent() or reporter_group.round > before:
            reporter_group.network.mine(1)
        time.sleep(_POLL_SECONDS)


def expire_stopped_leader_lease(store: Store, leader: Member) -> None:
    """Expire the lease of the stopped leader, resuming the leader where SQLite needs it.

    PostgreSQL aborts a write of the stopped leader when the standby requests it. SQLite has to
    wait, so the leader continues until it has written.
    """
    for _ in range(_MAX_POLLS):
        try:
            with store.transaction() as uow:
                uow.lease._connection.execute(text("UPDATE lease SET until_ms = 0"))
        except TransientError:
            with store.read_transaction() as uow:
                is_ended = uow.lease.terminate_stalled_writer(0)
            if not is_ended:
                leader.resume()
        else:
            if leader.is_paused:
                return
            leader.pause()
    raise AssertionError(f"it stands inside a write for ever\n{leader.tail()}")


def mine_until_idle(reporter_group: ReporterGroup, store: Store) -> None:
    """Mine until nothing is pending."""

    def is_done() -> bool:
        reporter_group.network.mine(1)
        with store.read_transaction() as uow:
            return not any(
                intent.state in PENDING_STATES for intent in uow.outbox.intents.list_newest(1000)
            )

    wait_until(is_done, "an outbox that has finished", reporter_group.tails)


def assert_exited_without_lease(old: Member) -> None:
    """Assert that a process exited because it lost its lease, and may be started again."""
    wait_until(lambda: not old.is_up, "the end of the one that was overtaken", old.tail)
    assert old._process is not None
    assert old._process.returncode == 1, old.tail()
    assert any(message in old.log.read_text("utf-8") for message in _LOST), old.tail()


def assert_rounds_landed_once(reporter_group: ReporterGroup, store: Store) -> None:
    """Assert that each round landed once, without wasted fees or writes by a replaced leader."""
    assert len(reporter_group.check_rounds()) > TAKEOVERS
    sender = reporter_group.members[0].transmitter
    count = reporter_group.network.stage.chain.make_request(
        "eth_getTransactionCount", sender, "latest"
    )
    with store.read_transaction() as uow:
        intents = uow.outbox.intents.list_newest(1000)[::-1]
        read = uow.lease._connection.execute
        epochs = list(read(select(pub_journal.c.lease_epoch).order_by(pub_journal.c.id)).scalars())
        assert uow.lease.get_state().epoch == TAKEOVERS + 1
    assigned_intents = [intent for intent in intents if intent.nonce is not None]
    assert [intent.nonce for intent in assigned_intents] == list(range(len(assigned_intents)))
    # A next round may be on its way.
    mined = assigned_intents[: int(count, 16)]
    assert len(mined) == int(count, 16)
    assert {intent.state.value for intent in mined} <= {"live", "mined", "final"}, mined
    assert epochs == sorted(epochs)
