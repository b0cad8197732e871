"""A node's candidacy in past draws equals that of the dispatcher at the time."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import given, strategies as st
from typing_extensions import override

from oracle.domain.events import network_events
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Address
from oracle.domain.scoring.rules import Rules
from oracle.indexer.event_archive import EventArchive
from oracle.queries.advice.advice_record import load_advice_record
from oracle.queries.advice.advice_sentences import (
    explain_work_share,
    format_work_share_rows,
    summarize_work_share,
)
from oracle.queries.advice.work_share import (
    MissedDraws,
    WorkShare,
    build_work_share,
    iter_draw_chances,
)
from oracle.queries.api.node_order import NodeRankingCache
from oracle.queries.api.source import ApiSource, open_snapshot
from oracle.store.database import Store
from oracle.systems.crynux.crynux_policy import CRYNUX_WEIGHTING, RELAY_WEIGHTING, Weighting
from oracle.systems.crynux.requirements import IneligibilityReason
from tests.support.examples import examples
from tests.support.scripted_reader import ScriptedReader
from tests.support.txmgr.dispatch_harness import build_dispatch_settings
from tests.support.txmgr.stores import NewStore
from tests.unit.dispatch.market import AT, GPUS, MODELS, NODES, TIME, VERSIONS, Market
from tests.unit.dispatch.plain_dispatch import PlainDispatch, dispatched_plainly
from tests.unit.dispatch.test_plain_dispatch import RULES, START, DrawingFollower


@dataclass
class SteadyMarket(Market):
    """A market in which stakes, GPUs, models and versions stay, and every task is drawn."""

    @override
    def _joins(self, _: Fold) -> Iterable[DomainEvent]:
        number = self.random.randrange(len(NODES))
        gpu, memory = GPUS[number % len(GPUS)]
        version = VERSIONS[number % len(VERSIONS)]
        models = MODELS[number % len(MODELS)]
        yield network_events.NodeJoined(
            AT, TIME, NODES[number], 4 * UNIT, gpu, memory, version, models
        )

    @override
    def _changes(self, fold: Fold) -> Iterable[DomainEvent]:
        members = self._members(fold)
        if members:
            runner = self.random.choice(members).address
            changes: list[DomainEvent] = [
                network_events.NodePaused(AT, TIME, runner),
                network_events.NodeResumed(AT, TIME, runner),
                network_events.NodeResumed(AT, TIME, runner),
                network_events.NodeQuit(AT, TIME, runner),
            ]
            yield self.random.choice(changes)

    @override
    def _starts(self, _: Fold) -> Iterable[DomainEvent]:
        return ()


def create_source(store: Store, rules: Rules) -> ApiSource:
    archive = EventArchive(store, ScriptedReader(), rules)
    return ApiSource(
        archive,
        NodeRankingCache(rules),
        lambda: None,
        lambda: 0,
        lambda _held: None,
        rules_id="{}",
    )


def check_candidacies(
    store: Store, weighting: Weighting, plain: PlainDispatch, address: Address
) -> set[IneligibilityReason]:
    """Compare a node's chances with the candidates of the plain dispatch; return all reasons."""
    source = create_source(store, plain.settings.rules)
    source = replace(source, dispatch=plain.settings)
    with open_snapshot(source) as snapshot:
        node = snapshot.get_ranking().nodes[address]
        record = load_advice_record(snapshot, node)
        candidacies = list(iter_draw_chances(snapshot, record, weighting, UNIT))
        recent_draws = snapshot.get_recent_draws()
        work = build_work_share(snapshot, record)
        assert work is not None
        # A node that quit has no stake now, so its chances at its present stake are 0.
        chances_now = iter_draw_chances(snapshot, record, weighting, work.stake_score)
        expected = sum(chance for _, chance in chances_now)
    rows = zip(recent_draws, candidacies, strict=True)
    scored_groups = {task.scored_in for task in plain.fold.ledger.tasks.values()} - {None}
    for recent_draw, (reason, chance) in rows:
        if recent_draw.group in scored_groups:
            # This market names groups again after their score, unlike a network.
            continue
        draw = recent_draw.draw
        candidates = plain.candidates_by_draw[draw.task, draw.seed_block]
        assert (reason is None) == (address in candidates), (reason, draw)
        assert draw.candidate_count == len(candidates)
        total = sum(candidates.values()) or len(candidates)
        if address in candidates:
            weight = candidates[address] if any(candidates.values()) else 1
            assert chance == weight * UNIT // total
    assert work.expected == expected
    assert work.received == sum(row.draw.node == address for row in recent_draws)
    assert work.eligible + sum(missed.draws for missed in work.missed) == work.draws
    return {missed.reason for missed in work.missed}


@examples(30)
@given(
    seed=st.integers(0, 2**16),
    rules=st.sampled_from(RULES),
    weighting=st.sampled_from([CRYNUX_WEIGHTING, RELAY_WEIGHTING]),
)
@pytest.mark.slow
def test_counted_candidacies_match_the_reference_dispatcher(
    new_sqlite_store: NewStore, seed: int, rules: Rules, weighting: Weighting
):
    chosen = build_dispatch_settings(START, rules=rules, weighting=weighting)
    market = SteadyMarket(Random(seed), rules)  # noqa: S311  # repeatable, no secret
    with new_sqlite_store() as store:
        daemon = DrawingFollower(market.chain, store, chosen=chosen)
        daemon.restart()
        for _ in range(8):
            market.mine(4, daemon.active)
            daemon.catch_up()
        plain = dispatched_plainly(chosen, market.chain)
        if plain.candidates_by_draw:
            for address in plain.fold.ledger.nodes:
                check_candidacies(store, weighting, plain, address)


WORK = WorkShare(
    draws=500,
    since=0,
    eligible=400,
    missed=[
        MissedDraws(reason=IneligibilityReason.VRAM_TOO_SMALL, draws=80),
        MissedDraws(reason=IneligibilityReason.BUSY, draws=20),
    ],
    received=12,
    expected=141 * UNIT // 10,
    fees=1_000,
    fees_received=18,
    fees_expected=21,
    stake_score=UNIT,
    qos=UNIT // 2,
    weight=UNIT // 3,
)


def test_work_share_is_described_with_reasons():
    assert summarize_work_share(WORK) == (
        "It was drawn for twelve of the last 500 tasks; the expected number was 14.1. It was "
        "a candidate for 400 of them."
    )
    assert format_work_share_rows(WORK) == [
        ("it was a candidate", "400"),
        ("the task asked for more video memory", "80"),
        ("it ran a task", "20"),
    ]
    assert explain_work_share(WORK).startswith(
        "Of the fees of these tasks, 1.8 % went to tasks that it was drawn for; the expected "
        "share was 2.1 %. Its weight for a task without models is 0.3333, from the stake score "
        "S = 1.0000 and the QoS Q = 0.5000"
    )
    departed = WORK.model_copy(update={"weight": None, "qos": None, "fees": 0})
    assert explain_work_share(departed) == WORK.assumption
