"""Rounds of the contract that accept the cut reports of a `Follower`."""

from dataclasses import replace

from oracle.domain.events import network_events
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Hash
from oracle.domain.reports.report import Report
from oracle.store.database import Store
from tests.support.rounds import build_acceptance
from tests.support.scripted import Event
from tests.support.txmgr.follower import Follower


def load_newest_report(store: Store) -> Report:
    """Return the report that was cut last."""
    with store.read_transaction() as uow:
        (stored,) = uow.reports.list_newest(1)
    return stored.report


def accept_newest_report(follower: Follower, *, as_of_hash: Hash | None = None) -> RoundAccepted:
    """Mine a block in which the contract accepts the newest cut report, and index it.

    The round names `as_of_hash`, by default the report's. If the report does not follow the newest
    round, empty blocks are mined until one does.
    """
    with follower.store.read_transaction() as uow:
        head_round = max((accepted.round for accepted in uow.rounds.list_accepted(1)), default=0)
    while (report := load_newest_report(follower.store)).head_round != head_round:
        follower.chain.mine()
        follower.catch_up()
    accepted_round = replace(
        build_acceptance(report, block=0, time=0), as_of_hash=as_of_hash or report.as_of.hash
    )
    follower.chain.mine(accepted_round)
    follower.catch_up()
    return accepted_round


def remove_contract_events(blocks: list[list[Event]]) -> list[list[Event]]:
    """Return the blocks without the contract's events; the test accepts reports instead."""
    return [
        [event for event in events if type(event).__module__ == network_events.__name__]
        for events in blocks
    ]
