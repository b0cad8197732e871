"""Random histories, evaluated by the product and by the reference in this folder."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from oracle.domain.ids import Address
from oracle.systems.pocket.node_selector import PortalMemory, PortalRecord
from oracle.systems.pocket.parameters import PORTAL_API_HEAD, PortalParameters
from oracle.systems.pocket.ranking import rank_nodes
from tests.support.examples import examples
from tests.unit.systems.pocket.reference import Gateway, Seen

# The code without its bug, as its comments describe it.
MEANT = replace(PORTAL_API_HEAD, zero_success_rate=0)
NODES = ("a", "b", "c", "d")
# Close to every time to live, and small enough that outcomes accumulate.
GAPS = (0, 0, 0, 0.25, 1, 7, 59, 60, 61, 149.5, 299, 299.5, 300, 301, 6899, 7200)
_durations = st.one_of(
    st.sampled_from((0.0, 0.0001, 0.1, 0.15, 0.150005, 0.16, 0.2, 0.3, 0.4, 1.0, 25.0)),
    st.floats(0, 2, allow_nan=False, allow_infinity=False),
)
_outcomes = st.tuples(
    st.just("relayed"),
    st.sampled_from(NODES),
    st.none() | _durations | _durations,
    st.sampled_from((1, 1, 1, 2, 19, 20, 21, 25, 49, 50)),
)
_flags = st.tuples(st.just("flag"), st.sampled_from(NODES), st.booleans(), st.just(1))
_evaluations = st.tuples(st.just("evaluate"), st.just("a"), st.none(), st.just(1))
_steps = st.lists(
    st.tuples(
        st.sampled_from(GAPS),
        st.one_of(_outcomes, _outcomes, _outcomes, _evaluations, _evaluations, _flags),
    ),
    max_size=50,
)


def ms(now: float) -> int:
    return round(now * 1000)


def compute_own_rows(memory: PortalMemory, now: float, params: PortalParameters) -> list[Seen]:
    nodes = [Address(name) for name in NODES]
    ranking = rank_nodes([memory.compute_stats(node, ms(now)) for node in nodes], params)
    memory.update_failure_flags(nodes, ms(now))
    return [
        (s.node, s.attempts, s.success_rate, s.median, s.weighted, s.failing, row.tickets)
        for row in ranking.rows
        for s in (row.stats,)
    ]


def flags(memory: PortalMemory, now: float) -> list[str | None]:
    records = [memory.records.get(Address(name), PortalRecord()) for name in NODES]
    return [str(r.flag).lower() if ms(now) < r.flag_until else None for r in records]


class Both:
    """Applies the same steps to both."""

    def __init__(self, params: PortalParameters) -> None:
        self.params = params
        self.memory = PortalMemory(params)
        self.gateway = Gateway(is_head=bool(params.zero_success_rate))

    def step(self, now: float, what: str, name: str, value: float | None, times: int) -> None:
        node = Address(name)
        if what == "evaluate":
            assert compute_own_rows(self.memory, now, self.params) == self.gateway.picks(
                list(NODES), now
            )
        elif what == "flag":
            self.memory.set_failure_flag(node, ms(now) + 300_000, flag=bool(value))
            self.gateway.put(f"{name} failing", str(bool(value)).lower(), now + 300)
        for _ in range(times if what == "relayed" else 0):
            self._relayed(node, value, now)

    def _relayed(self, node: Address, seconds: float | None, now: float) -> None:
        self.gateway.relayed(node, seconds, now)
        if seconds is None:
            self.memory.record_failure(node, ms(now))
        else:
            self.memory.record_success(node, seconds, ms(now))


@pytest.mark.parametrize("params", [MEANT, PORTAL_API_HEAD], ids=["meant", "head"])
@examples(150)
@given(steps=_steps)
def test_evaluations_match_reference_gateway(steps, params):
    both = Both(params)
    now = 0.0
    for gap, (what, name, value, times) in steps:
        now += gap
        both.step(now, what, name, value, times)
    both.step(now, "evaluate", "a", None, 1)
    expected = [both.gateway.get(f"{name} failing", now) for name in NODES]
    assert flags(both.memory, now) == expected


@given(durations=st.lists(_durations, min_size=495, max_size=520))
@examples(10)
def test_excess_samples_are_halved_as_in_reference(durations):
    both = Both(MEANT)
    for duration in durations:
        both.step(0, "relayed", "a", duration, 1)
    both.step(0, "evaluate", "a", None, 1)
