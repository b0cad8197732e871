"""The mean of a node's reliability H over a day, optionally without one of its changes.

The mean hardly changes within minutes, unlike H itself, so forecasts use it.
"""

from itertools import pairwise

from oracle.domain.fixed_point import ONE, UNIT, compute_decay
from oracle.domain.scoring.node_scores import heal_reliability
from oracle.domain.scoring.reliability import ReliabilityCause, change_reliability
from oracle.queries.advice.advice_record import AdviceRecord

MEAN_SECONDS = 86_400


def compute_mean_reliability(record: AdviceRecord, omitted_index: int | None = None) -> int:
    """Return the mean of H in the last `MEAN_SECONDS`, or over the time since it is known.

    The change with the index `omitted_index` counts as if it had not happened.
    """
    first = max(record.known_since, record.time - MEAN_SECONDS)
    steps = list_reliability_steps(record, omitted_index)
    if record.time <= first:
        time, base = steps[-1]
        return heal_reliability(base, time, record.time, record.rules)
    missing, tau_seconds = 0, record.rules.tau_seconds
    for (time, base), (next_time, _) in pairwise([*steps, (record.time, 0)]):
        start = max(time, first)
        if next_time > start:
            gap = UNIT - heal_reliability(base, time, start, record.rules)
            # The integral of gap * exp(-s/tau) over these seconds.
            missing += gap * tau_seconds * (ONE - compute_decay(next_time - start, tau_seconds))
    return UNIT - missing // (ONE * (record.time - first))


def list_reliability_steps(
    record: AdviceRecord, omitted_index: int | None = None
) -> list[tuple[int, int]]:
    """Return the time and the new value of each change of H since `known_since`.

    The changes after an omitted one are applied again. A success that found H = 1 is not stored,
    and would have found H = 1 again.
    """
    rules, changes = record.rules, record.changes
    steps = [(record.known_since, changes[0].before if changes else UNIT)]
    if omitted_index is None:
        return steps + [(change.time, change.after) for change in changes]
    omitted_change = changes[omitted_index]
    for change in changes:
        if change.cause is ReliabilityCause.TIMEOUT_VOID or change is omitted_change:
            continue
        if change.at < omitted_change.at or change.cause is ReliabilityCause.JOINED:
            steps.append((change.time, change.after))
            continue
        reliability = heal_reliability(steps[-1][1], steps[-1][0], change.time, rules)
        steps.append((change.time, change_reliability(change.cause, reliability, rules)))
    return steps
