"""Advice for the owner of one node, as of the cursor: `/v1/nodes/{node}/advice` and `advice`.

The advice is computed on demand from the node's rows (docs/reference/read-api.md#advice).
"""

from pydantic import Field

from oracle.domain.state import Membership, Node
from oracle.indexer.kickout_reviews import load_kickout_review
from oracle.queries.advice.advice_record import AdviceRecord
from oracle.queries.advice.gpu_speeds import list_gpu_speeds
from oracle.queries.advice.kickout_outlook import (
    KickoutOutlook,
    KickoutState,
    build_kickout_outlook,
    classify_kickout_state,
)
from oracle.queries.advice.node_money import NodeMoney, build_node_money
from oracle.queries.advice.what_if import WhatIf, build_what_if
from oracle.queries.advice.work_share import WorkShare, build_work_share
from oracle.queries.answers import AddressText, Answer
from oracle.queries.api.draw_weights import find_draw_weighting, is_available
from oracle.queries.api.gpu_table import get_node_gpu
from oracle.queries.api.source import ApiSnapshot


class NodeAdvice(Answer):
    """The forecasts for a node, the effects of possible changes, and their assumptions."""

    node: AddressText
    kickout_state: KickoutState = Field(
        description=(
            "Whether a kickout is due or expected. `no_score`: the node has no scored task that "
            "counts now. `no_forecast`: the rules score each window by itself, so there is no "
            "forecast."
        )
    )
    kickout: KickoutOutlook | None = Field(
        description=(
            "When the kickout is due; null if none is due or expected, or if the node is not a "
            "member."
        )
    )
    hold_reason: str | None = Field(
        description=(
            "Why the due kickout is held, so that only the vetoer can allow it; null if no "
            "kickout is due or held."
        )
    )
    what_if: WhatIf | None = Field(
        description=(
            "The node's scores under other conditions; null under legacy rules, if the node is "
            "not a member, if no group in its pool can be ranked again, or if its pool differs "
            "from its stored scores."
        )
    )
    work: WorkShare | None = Field(
        description=(
            "Why the node was drawn or not drawn for recent tasks; null if no task was drawn, "
            "or if the policy has no weights."
        )
    )
    money: NodeMoney


def build_node_advice(snapshot: ApiSnapshot, record: AdviceRecord) -> NodeAdvice:
    """Return the advice for the node of `record` as of the cursor."""
    node, time, rules = record.node, record.time, record.rules
    is_member = node.membership is Membership.MEMBER
    outlook = build_kickout_outlook(node, time, rules, record.entries)
    kickout_state = classify_kickout_state(node, time, rules, outlook)
    money = build_node_money(record)
    return NodeAdvice(
        as_of=snapshot.as_of,
        node=node.address,
        kickout_state=kickout_state,
        kickout=outlook,
        hold_reason=_find_hold_reason(snapshot, node) if kickout_state == "due" else None,
        what_if=_build_what_if(snapshot, record, money) if is_member else None,
        work=build_work_share(snapshot, record),
        money=money,
    )


def _find_hold_reason(snapshot: ApiSnapshot, node: Node) -> str | None:
    """Return why the node's due kickout needs an operator's approval.

    The result is None if no kickout is due, or if the due kickout needs no approval.
    """
    if node.kickout_due_since is None:
        return None
    policy = snapshot.source.archive.kickout_policy
    return load_kickout_review(snapshot.uow, node, policy).hold_reason


def _build_what_if(snapshot: ApiSnapshot, record: AdviceRecord, money: NodeMoney) -> WhatIf | None:
    node = record.node
    ranking = snapshot.get_ranking()
    rules = snapshot.source.archive.rules
    time = snapshot.cursor.time
    weighting = find_draw_weighting(rules, snapshot.source.dispatch)

    own_qos = ranking.compute_qos(node)

    def find_rank(qos: int) -> int | None:
        rank = ranking.find_rank_by_qos(node.address, qos)
        # If the new QoS is lower, the ranking lists the node's own entry before its new place.
        # This entry must not be counted.
        is_lower = own_qos is not None and own_qos > qos
        return None if rank is None else rank - is_lower

    def compute_chance(qos: int) -> int | None:
        if weighting is None:
            return None
        counted_qos = own_qos if is_available(node, time, rules) else None
        return ranking.get_draw_weights(weighting).compute_chance(node.stake, qos, counted_qos)

    return build_what_if(
        record,
        find_rank,
        compute_chance,
        list_gpu_speeds(get_node_gpu(node), snapshot.get_gpu_table()),
        None if money.per_day is None else money.seconds,
    )
