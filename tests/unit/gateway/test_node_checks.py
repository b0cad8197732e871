"""Which nodes fail the checks, and why."""

import pytest
from hypothesis import given, strategies as st

from gateway.node_checks import CheckRules, NodeChecks, ProbeAnswer, UncheckedPolicy
from tests.support.examples import examples
from tests.unit.gateway.relays import T0


def checks(**rules: object) -> NodeChecks:
    return NodeChecks(CheckRules(chain_id=1, **rules))  # type: ignore[arg-type]


def reasons(of: NodeChecks, answers: dict[str, ProbeAnswer]) -> dict[str, str]:
    of.apply_probe_answers(answers, T0)
    return of.find_exclusion_reasons(answers, T0)


def at(*heights: int) -> dict[str, ProbeAnswer]:
    return {f"n{number}": ProbeAnswer(1, height) for number, height in enumerate(heights)}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (ProbeAnswer(1, 100), None),
        (ProbeAnswer(1, 95), None),
        (ProbeAnswer(1, 94), "behind"),
        (ProbeAnswer(2, 100), "wrong_chain"),
        (ProbeAnswer(None, 100), "wrong_chain"),
        (ProbeAnswer(1, None), "height_unknown"),
        (ProbeAnswer(fault="probe_slow"), "probe_slow"),
        (ProbeAnswer(1, 10**9), "beyond"),
    ],
)
def test_node_that_fails_its_check_is_ineligible_with_a_reason(
    answer: ProbeAnswer, why: str | None
):
    reason_by_node = reasons(checks(), {**at(100, 100, 100), "it": answer})
    assert reason_by_node == ({} if why is None else {"it": why})


@given(st.lists(st.integers(0, 2**62), min_size=1), st.integers(2**62, 2**63 - 1))
@examples(100)
def test_single_inflated_height_does_not_exclude_honest_nodes(heights, inflated_height):
    # Beside at least three honest nodes that agree.
    honest = at(1000, 1000, 1000, *[1000 for _ in heights])
    assert reasons(checks(), {**honest, "liar": ProbeAnswer(1, inflated_height)}) == {
        "liar": "beyond"
    }


def test_heights_of_nodes_on_a_wrong_chain_are_ignored():
    wrong_chain_answers = {f"x{n}": ProbeAnswer(2, 10**6) for n in range(5)}
    assert set(reasons(checks(), {**at(10, 10, 10), **wrong_chain_answers})) == set(
        wrong_chain_answers
    )


@pytest.mark.parametrize(
    ("unchecked", "why"), [(UncheckedPolicy.ALLOW, None), (UncheckedPolicy.REFUSE, "unchecked")]
)
def test_check_result_expires_after_five_minutes(unchecked: UncheckedPolicy, why: str | None):
    node_checks = checks(unchecked=unchecked)
    assert node_checks.find_exclusion_reason("n0", T0) == why
    node_checks.apply_probe_answers(at(10), T0)
    assert node_checks.find_exclusion_reason("n0", T0 + 299_999) is None
    assert node_checks.find_exclusion_reason("n0", T0 + 300_000) == why


def test_failed_node_stays_ineligible_until_it_passes_a_check():
    node_checks = checks()
    node_checks.apply_probe_answers({"a": ProbeAnswer(fault="probe_slow")}, T0)
    assert node_checks.find_exclusion_reason("a", T0 + 3_600_000) == "probe_slow"
    assert node_checks.apply_probe_answers({"a": ProbeAnswer(1, 5)}, T0 + 1) == ["a"]
    assert node_checks.find_exclusion_reason("a", T0 + 1) is None


def test_node_without_stake_or_with_unknown_stake_is_ineligible():
    node_checks = checks(needs_stake=True)
    node_checks.apply_probe_answers(at(10, 10), T0)
    assert node_checks.find_exclusion_reasons(["n0", "n1"], T0) == {
        "n0": "stake_unknown",
        "n1": "stake_unknown",
    }
    node_checks.staked_nodes = frozenset({"n0", "never checked"})
    reason_by_node = node_checks.find_exclusion_reasons(["n0", "n1", "never checked"], T0)
    assert reason_by_node == {"n1": "not_staked"}
