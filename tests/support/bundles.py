"""An evidence bundle of a node that is due for a kickout, from a real database."""

import json
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from eth_account import Account

from oracle.domain.blocks import BlockRange, Position
from oracle.domain.events.oracle_events import ConfigSet, RoundAccepted, SignersSet
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.report import format_rules_id, hash_rules_and_settings
from oracle.domain.scoring.rules import Rules
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.round_leaves import LeafCache
from oracle.indexer.stored_events import export_events
from oracle.queries.evidence_bundle import build_evidence_bundle
from oracle.signing.typed_data import ReportStatement
from oracle.store.database import Store
from oracle.store.outbox.records import SignedStatement, Stamp
from tests.support.accepted_rounds import load_newest_report
from tests.support.config_digest import compute_config_digest
from tests.support.histories import History, make_node_address
from tests.support.rounds import build_acceptance
from tests.support.scripted import ScriptedReader
from tests.support.txmgr.follower import DOMAIN, RULES, SETTINGS, Follower, folder, mine_blocks

Bundle = dict[str, Any]

# One creator orders all tasks, so that every kickout is held.
BUNDLE_RULES = replace(RULES, name="bundle", kick_creator_share=UNIT // 2)
QUORUM = 2
SLOW_NODE = make_node_address("C")
_KEYS = tuple(f"0x{number:064x}" for number in (1, 2, 3))
_SIGNERS = tuple(Address(Account.from_key(key).address.lower()) for key in _KEYS)
_AT = Position(0, 0, 0)


@dataclass(frozen=True)
class BundledNode:
    """A bundle as JSON, and all events of the network."""

    bundle: Bundle
    events: list[dict[str, Any]]


def build_slow_node_history(group_count: int) -> History:
    """Let three nodes answer groups of three; C is always last, and does not answer one."""
    history = History().joins("A", "B", "C")
    for number in range(group_count):
        tasks = [f"{number}{name}" for name in "ABC"]
        history.after(10)
        for task, name in zip(tasks, "ABC", strict=True):
            history.creates(
                task, of=f"g{number}", creator=make_node_address("creator"), timeout=600
            )
            history.starts(task, name)
        for task in tasks if number else tasks[:2]:
            history.after(10).submits(task)
        history.after(10).closes(f"g{number}", *tasks)
    return history


def bundle_slow_node(
    store: Store,
    group_count: int = 6,
    rules: Rules = BUNDLE_RULES,
    address: Address = SLOW_NODE,
) -> BundledNode:
    """Index a history with an accepted, signed round; return a node's bundle, by default of C."""
    rules_hash = hash_rules_and_settings(rules, ScriptedReader.identity, SETTINGS)
    config = compute_config_digest(DOMAIN, 1, _SIGNERS, QUORUM, rules_hash)
    blocks = [
        list(events)
        for _, events in groupby(
            build_slow_node_history(group_count).events, lambda event: event.at.block
        )
    ]
    chain = mine_blocks(
        [[SignersSet(_AT, 0, _SIGNERS, QUORUM), ConfigSet(_AT, 0, 1, config)], *blocks]
    )
    follower = Follower(chain, store, folder=folder(rules))
    chain.mine_many(8)
    follower.catch_up()
    accepted = _accept_report(follower, config)
    _store_signatures(store, accepted)
    archive = EventArchive(store, ScriptedReader(), rules)
    rules_id = format_rules_id(rules, ScriptedReader.identity, SETTINGS)
    bundle = build_evidence_bundle(archive, LeafCache(), address, None, rules_id)
    with store.read_transaction() as uow:
        lines = list(export_events(uow, ScriptedReader(), BlockRange(0, accepted.as_of)))
    return BundledNode(bundle.model_dump(mode="json"), [json.loads(line) for line in lines])


def _accept_report(follower: Follower, config: Hash) -> RoundAccepted:
    report = load_newest_report(follower.store)
    accepted = replace(
        build_acceptance(report, block=0, time=0), config=config, signer_bitmap=0b11
    )
    follower.chain.mine(accepted)
    follower.catch_up()
    return accepted


def _store_signatures(store: Store, accepted: RoundAccepted) -> None:
    """Store the statements of two signers: the reporter itself and a peer."""
    report = load_newest_report(store)
    statement = ReportStatement(
        config=accepted.config,
        round=accepted.round,
        prev=report.prev,
        as_of=accepted.as_of,
        as_of_hash=accepted.as_of_hash,
        deadline=report.deadline,
        root=accepted.root,
    )
    own, peer = (_sign(statement, number) for number in range(QUORUM))
    with store.transaction() as uow:
        uow.statements.add(own, Stamp(0, 0))
        uow.peer_statements.add(peer, "peer", Stamp(0, 0))


def _sign(statement: ReportStatement, number: int) -> SignedStatement:
    digest = statement.compute_digest(DOMAIN)
    signed = Account.unsafe_sign_hash(digest, _KEYS[number])
    return SignedStatement(
        chain_id=DOMAIN.chain_id,
        contract=DOMAIN.contract,
        signer=_SIGNERS[number],
        round=statement.round,
        digest=digest,
        signature=bytes(signed.signature),
        config=statement.config,
        prev=statement.prev,
        as_of_block=statement.as_of,
        as_of_hash=statement.as_of_hash,
        deadline=statement.deadline,
        root=statement.root,
    )
