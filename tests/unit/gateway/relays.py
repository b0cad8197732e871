"""Relays for tests, and a selector with known seeds."""

from itertools import count

from hypothesis import strategies as st

from gateway.gateway_records import ReportedOutcome
from gateway.gateway_rules import GatewayRules
from gateway.session_selector import SelectionRequest, SelectorHooks, SessionSelector
from oracle.domain.ids import Address
from oracle.systems.pocket.relay_outcomes import BLAME_BY_KIND, Blame, OutcomeKind, RelayOutcome

CHAIN = "0021"
NODES = tuple(f"node-{number}" for number in range(6))
T0 = 1_700_000_000_000


def make_outcome(
    node: str,
    t: int = T0,
    latency: float = 100.0,
    kind: OutcomeKind = OutcomeKind.OK,
    *,
    session: str = "s",
    outcome_id: str | None = None,
) -> ReportedOutcome:
    served = BLAME_BY_KIND[kind] is Blame.SUCCESS
    outcome = RelayOutcome(Address(node), CHAIN, t, kind, latency if served else 0.0)
    return ReportedOutcome(outcome, session, outcome_id)


def build_failure(node: str, t: int = T0) -> ReportedOutcome:
    return make_outcome(node, t, kind=OutcomeKind.TIMEOUT)


def return_counting_seeds(hooks: SelectorHooks | None = None) -> SelectorHooks:
    """Return seeds with the values 1, 2, 3, …"""
    numbers = count(1)
    seeded_hooks = hooks or SelectorHooks()
    seeded_hooks.random_bytes = lambda size: next(numbers).to_bytes(size, "big")
    return seeded_hooks


def selector(**rules: int) -> SessionSelector:
    return SessionSelector(GatewayRules(**rules), hooks=return_counting_seeds())  # type: ignore[arg-type]


def build_request(*candidates: str, session: str = "s", max_nodes: int = 1) -> SelectionRequest:
    return SelectionRequest(CHAIN, session, candidates or NODES, max_nodes)


def histories() -> st.SearchStrategy[list[ReportedOutcome]]:
    """Return relays of some minutes, in the order of their ends."""
    outcome_rows = st.tuples(
        st.integers(0, 400_000),
        st.sampled_from(NODES),
        st.floats(0, 2_000),
        st.sampled_from([OutcomeKind.OK, OutcomeKind.OK, *OutcomeKind]),
    )
    return st.lists(outcome_rows, max_size=60).map(
        lambda rows: [
            # No queried session ends.
            make_outcome(node, T0 + t, ms, kind, session="another")
            for t, node, ms, kind in sorted(rows)
        ]
    )
