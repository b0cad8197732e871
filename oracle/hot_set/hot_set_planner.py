"""Plans the calls that write score words to the hot set and bind nodes to their seats.

The contract requires no rights, because every call carries a proof. The planner reads from the
contract which words and seats are left, and stores nothing except the planned calls. See
docs/how-to/production.md#hot-set.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from oracle.bindings.qos_words import (
    StoredWord,
    encode_bind_seats_call,
    encode_write_words_call,
    group_words_into_runs,
)
from oracle.chain.heads import Heads
from oracle.domain.blocks import BlockRef
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.reports.lanes import LOWEST_SCORE, NEVER_REPORTED, unpack_lanes
from oracle.hot_set.hot_set_context import HotSetContext
from oracle.hot_set.hot_set_rounds import HotSetRound, load_hot_set_round
from oracle.indexer.round_leaves import prove_seats
from oracle.quorum.statements import is_report_in_flight
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    BIND_NODES,
    HOT_SET_KINDS,
    UPDATE_WORDS,
    CallRequest,
    IntentState,
)
from oracle.txmgr.context import StepResult, merge_results
from oracle.txmgr.deferral import find_held_subjects

# Lower numbers are sent first, so reports and kickouts precede the calls of the hot set.
PRIORITY = 300
# Only a few calls are planned per step, because a new round invalidates calls not yet sent.
_MAX_CALLS_PER_STEP = 16
# 64 words hold the lanes of 1,024 nodes; writing them for the first time costs up to 1.6 million
# gas.
_MAX_RUN_WORDS = 64
# Binding this many nodes in one call costs up to 0.7 million gas.
_MAX_NODES_PER_CALL = 16
# Number of seats that are read from the contract per batch and per step.
_SEATS_PER_BATCH, _SEATS_PER_STEP = 100, 1_000
# The maximum number of calls for the same words or seats in a round. Several may be needed,
# because a reorg may remove a mined call.
_MAX_TRIES = 3
# The contract treats a lane that was never written like that of a newcomer, whose QoS is 0.5.
_NEWCOMER_LANE = 5_001


class _PlannedCall(NamedTuple):
    kind: str
    subject: str
    calldata: str


def plan_hot_set_calls(context: HotSetContext, heads: Heads) -> StepResult | None:
    """Plan the calls that the last accepted round requires.

    The result is None if none is needed. Nothing is planned while earlier calls are pending, or
    while a report is in flight, because the report will invalidate the proofs. After each round,
    transmitters of a lower rank have a head start, so this transmitter plans only the calls that
    they have not sent by its end.

    Raises:
        TransientError: no endpoint answers.
    """
    account_context, progress = context.account_context, context.progress
    if account_context.is_halted() or not account_context.sender_account.has_payer:
        return None
    with account_context.store.read_transaction() as uow:
        progress.reset_after_reorg(uow.reorgs.get_newest_id())
        last_round = uow.rounds.find_last_provable_round()
        if (
            last_round is None
            or progress.is_complete(last_round.root)
            or not account_context.is_at_head(uow, heads)
            or _has_pending_call(context, uow)
        ):
            return None
    contract_status = context.quorum.fetch_contract_status()
    due_round = _load_due_round(context, contract_status.block)
    if (
        # The contract may have accepted a newer round that is not indexed yet.
        contract_status.head.round != last_round.round
        or due_round is None
        or progress.is_complete(due_round.root)
        or account_context.is_market_fee_above(context.max_fee)
    ):
        return None
    checked_seats = progress.bound_seats
    calls = [
        *_plan_word_calls(context, last_round, due_round, contract_status.block),
        *_plan_seat_calls(context, last_round, due_round, contract_status.block),
    ]
    if calls:
        return _enqueue_calls(context, last_round, calls[:_MAX_CALLS_PER_STEP])
    if progress.is_complete(due_round.root) or progress.bound_seats == checked_seats:
        return None
    return StepResult("hot set checked", None, f"{progress.bound_seats} nodes are bound")


def _has_pending_call(context: HotSetContext, uow: UnitOfWork) -> bool:
    account = context.account_context.account
    return is_report_in_flight(uow, account) or any(
        uow.outbox.intents.find_most_urgent_pending_call(account, kind) is not None
        for kind in HOT_SET_KINDS
    )


def _load_due_round(context: HotSetContext, block: BlockRef) -> RoundAccepted | None:
    """Return the newest round that this reporter may write to the hot set now.

    Transmitters of a lower rank may write a round first, so a round is due when their head start
    is over. The result is None if no round is due, or if its root was withdrawn.

    `block` is the block at which
    the contract is read. The newest round cannot be used, because its head start would never end
    if rounds are accepted at shorter intervals than the head start.
    """
    rank = context.account_context.rank
    with context.account_context.store.read_transaction() as uow:
        return uow.rounds.find_last_provable_round(
            up_to_block=block.number - rank.head_start_blocks,
            up_to_time=block.time - rank.head_start_seconds,
        )


def _plan_word_calls(
    context: HotSetContext, last_round: RoundAccepted, due_round: RoundAccepted, block: BlockRef
) -> Iterator[_PlannedCall]:
    """Yield calls that write words which differ from `due_round` or soon become stale.

    The contract limits how many nodes may fall through words of the last round
    (`count_falling_lanes` defines a fall). Words beyond this limit are written as of the round
    that is `lag_rounds` older, for which the contract has no limit. A word that this older round
    does not contain is not written.
    """
    if context.progress.words_root == due_round.root:
        return
    configuration = context.get_configuration(block)
    hot_set_round, due_hot_set_round = _load_hot_set_rounds(
        context, last_round.round, due_round.round
    )
    if hot_set_round is None or due_hot_set_round is None:
        return
    contract = context.get_contract()
    stored_words = contract.fetch_words(0, len(hot_set_round.lane_words), block)
    # A word is rewritten `lag_rounds` rounds before the contract considers it stale.
    max_word_age = configuration.max_rounds - configuration.lag_rounds - 1
    min_round = last_round.round - max_word_age
    outdated_indexes = hot_set_round.find_outdated_indexes(stored_words, min_round)
    due_indexes = due_hot_set_round.find_outdated_indexes(
        stored_words, due_round.round - max_word_age
    )
    fall_count, max_falls = contract.fetch_fall_counts(block)
    allowed_indexes, excess_indexes = split_words_by_fall_limit(
        sorted(set(outdated_indexes).intersection(due_indexes)),
        stored_words,
        hot_set_round.lane_words,
        max_falls - fall_count,
        configuration.big_fall,
    )
    has_words_to_write = bool(allowed_indexes)
    yield from _plan_word_run_calls(hot_set_round, allowed_indexes, "")
    lagged_round = (
        _load_round(context, last_round.round - configuration.lag_rounds)
        if excess_indexes
        else None
    )
    if lagged_round is not None:
        outdated_lagged_indexes = lagged_round.find_outdated_indexes(stored_words, min_round)
        lagged_indexes = sorted(set(excess_indexes).intersection(outdated_lagged_indexes))
        has_words_to_write |= bool(lagged_indexes)
        yield from _plan_word_run_calls(
            lagged_round, lagged_indexes, f" of round {lagged_round.pieced_round.summary.round}"
        )
    if not has_words_to_write:
        context.progress.words_root = due_round.root


def _plan_word_run_calls(
    hot_set_round: HotSetRound, indexes: Iterable[int], suffix: str
) -> Iterator[_PlannedCall]:
    runs = group_words_into_runs(indexes, _MAX_RUN_WORDS)
    proofs = hot_set_round.pieced_round.prove_word_runs(hot_set_round.lane_words, runs)
    for (first_index, count), hashes in zip(runs, proofs, strict=True):
        run_words = hot_set_round.lane_words[first_index : first_index + count]
        zero_padding = (0,) * (count - len(run_words))
        calldata = encode_write_words_call(
            hot_set_round.pieced_round.summary.round,
            first_index,
            (*run_words, *zero_padding),
            hashes,
        )
        subject = f"words {first_index} to {first_index + count - 1}{suffix}"
        yield _PlannedCall(UPDATE_WORDS, subject, calldata)


def _plan_seat_calls(
    context: HotSetContext, last_round: RoundAccepted, due_round: RoundAccepted, block: BlockRef
) -> Iterator[_PlannedCall]:
    """Yield calls that bind the unbound nodes with the lowest seats.

    The contract requires leaves that are `lag_rounds` rounds old. Nodes that could not be bound
    after `due_round` yet are left to transmitters of a lower rank. The seats below `bound_seats`
    are not read again, because seats are filled in ascending order and a node keeps its seat.
    """
    progress = context.progress
    if progress.seats_root == due_round.root:
        return
    lag_rounds = context.get_configuration(block).lag_rounds
    hot_set_round, due_hot_set_round = _load_hot_set_rounds(
        context, last_round.round - lag_rounds, due_round.round - lag_rounds
    )
    node_count = (
        0 if due_hot_set_round is None else due_hot_set_round.pieced_round.summary.node_count
    )
    if hot_set_round is None or progress.bound_seats >= node_count:
        progress.seats_root = due_round.root
        return
    step_end = min(node_count, progress.bound_seats + _SEATS_PER_STEP)
    for first_seat in range(progress.bound_seats, step_end, _SEATS_PER_BATCH):
        seat_range = range(first_seat, min(first_seat + _SEATS_PER_BATCH, step_end))
        with context.account_context.store.read_transaction() as uow:
            seat_proofs = prove_seats(
                uow, context.leaf_cache, hot_set_round.pieced_round, seat_range
            )
        bound_seats = context.get_contract().fetch_seats(
            [proof.address for proof in seat_proofs], block
        )
        unbound_proofs = [
            proof
            for proof, bound_seat in zip(seat_proofs, bound_seats, strict=True)
            if bound_seat != proof.leaf.seat
        ]
        for start in range(0, len(unbound_proofs), _MAX_NODES_PER_CALL):
            call_proofs = unbound_proofs[start : start + _MAX_NODES_PER_CALL]
            subject = f"seats {call_proofs[0].leaf.seat} to {call_proofs[-1].leaf.seat}"
            yield _PlannedCall(BIND_NODES, subject, encode_bind_seats_call(call_proofs))
        if unbound_proofs or len(seat_proofs) < len(seat_range):
            return
        progress.bound_seats = seat_range.stop


def _load_hot_set_rounds(
    context: HotSetContext, round_number: int, due_number: int
) -> tuple[HotSetRound | None, HotSetRound | None]:
    """Load the rounds with these numbers; equal numbers give the same object twice."""
    due_hot_set_round = _load_round(context, due_number)
    is_due = round_number == due_number
    return due_hot_set_round if is_due else _load_round(context, round_number), due_hot_set_round


def _load_round(context: HotSetContext, round_number: int) -> HotSetRound | None:
    return load_hot_set_round(context.account_context.store, context.leaf_cache, round_number)


def _enqueue_calls(
    context: HotSetContext, last_round: RoundAccepted, calls: Sequence[_PlannedCall]
) -> StepResult | None:
    """Store the calls, except those that are held, already mined, or tried too often."""
    account, stamp = context.account_context.account, context.account_context.stamp
    steps: list[StepResult] = []
    with context.account_context.write_transaction() as uow:
        intents = uow.outbox.intents
        held_subjects = find_held_subjects(uow, account)
        # Mined calls are skipped, because the contract may have been read at a block before
        # theirs.
        mined_subjects = {
            (intent.request.kind, intent.request.subject, intent.request.round)
            for intent in intents.list_in_states(account, [IntentState.MINED])
        }
        for kind, subject, calldata in calls:
            request = CallRequest(
                account=account,
                contract=context.address,
                kind=kind,
                dedup_key=f"{kind}:{subject}:round={last_round.round}",
                calldata=calldata,
                subject=subject,
                round=last_round.round,
                # If a reorg removes this block, the round's proofs become invalid.
                as_of_block=last_round.at.block,
                priority=PRIORITY,
            )
            is_done = (kind, subject, last_round.round) in mined_subjects
            if (
                is_done
                or (kind, subject) in held_subjects
                or intents.count_tries(request) >= _MAX_TRIES
            ):
                continue
            intent_id = intents.add_next_try(request, stamp)
            steps.append(StepResult(f"{kind} planned", intent_id, subject))
    return merge_results("hot set", steps)


def count_falling_lanes(previous_word: int, new_word: int, big_fall: int) -> int:
    """Return how many of a word's sixteen nodes fall between two versions of the word.

    A node falls if it becomes unselectable, or if its QoS drops by more than `big_fall`, which is
    in steps of 0.0001. The contract QoSWords counts in the same way
    (docs/reference/contract-interface.md#qoswords).
    """
    return sum(
        previous_lane - new_lane > big_fall or previous_lane >= LOWEST_SCORE > new_lane
        for previous_lane, new_lane in zip(
            _unpack_comparable_lanes(previous_word),
            _unpack_comparable_lanes(new_word),
            strict=True,
        )
    )


def split_words_by_fall_limit(
    indexes: Iterable[int],
    stored_words: Sequence[StoredWord],
    lane_words: Sequence[int],
    max_new_falls: int,
    big_fall: int,
) -> tuple[list[int], list[int]]:
    """Split words into those that add at most `max_new_falls` falls in total, and the rest."""
    allowed_indexes: list[int] = []
    excess_indexes: list[int] = []
    total_fall_count = 0
    for index in indexes:
        word_fall_count = count_falling_lanes(
            stored_words[index].lanes, lane_words[index], big_fall
        )
        # Like the contract, skip a word that would exceed the limit, and go on to the next one.
        is_allowed = total_fall_count + word_fall_count <= max_new_falls
        total_fall_count += word_fall_count if is_allowed else 0
        (allowed_indexes if is_allowed else excess_indexes).append(index)
    return allowed_indexes, excess_indexes


def _unpack_comparable_lanes(lane_word: int) -> list[int]:
    return [_NEWCOMER_LANE if lane == NEVER_REPORTED else lane for lane in unpack_lanes(lane_word)]
