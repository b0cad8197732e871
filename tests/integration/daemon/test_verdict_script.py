"""The headline of `/verify`: green only if no check is open that a score depends on."""

from typing import Any

from tests.support.page_scripts import needs_node, run_page_script

pytestmark = needs_node
ANCHORS = ("Oracle contract", "Endpoint", "Chain", "Root", "Acceptance", "Proof")
REQUIRED = (*ANCHORS, "Rules", "Newest round", "Logs", "Contents", "All events")
OPTIONAL = ("Signatures", "Held")
Check = dict[str, Any]


def make_checks() -> list[Check]:
    """Return checks that all pass."""
    return [
        {"name": name, "is_true": True, "text": "", "is_optional": name in OPTIONAL}
        for name in (*REQUIRED, *OPTIONAL)
    ]


def change_check(name: str, *, is_true: bool | None) -> list[Check]:
    return [
        {**check, "is_true": is_true} if check["name"] == name else check
        for check in make_checks()
    ]


def find_states(*cases: list[Check]) -> list[str]:
    verdicts = run_page_script("(cases) => cases.map(summarizeChecks)", cases)
    return [verdict["state"] for verdict in verdicts]


def test_verdict_is_confirmed_if_only_optional_checks_are_missing():
    open_cases = [change_check(name, is_true=None) for name in OPTIONAL]
    assert set(find_states(make_checks(), *open_cases)) == {"confirmed"}


def test_verdict_with_an_unfinished_required_check_is_not_confirmed():
    states = find_states(*(change_check(name, is_true=None) for name in REQUIRED))
    by_name = dict(zip(REQUIRED, states, strict=True))
    assert {name for name, state in by_name.items() if state == "consistent"} == set(ANCHORS)
    assert {state for name, state in by_name.items() if name not in ANCHORS} == {"partial"}


def test_verdict_without_a_required_check_is_not_confirmed():
    """A bundle for which a check is missing, for example without an endpoint."""
    needed = (*ANCHORS, "All events")
    cases = ([check for check in make_checks() if check["name"] != name] for name in needed)
    assert "confirmed" not in find_states(*cases)


def test_verdict_is_wrong_if_one_check_fails():
    names = (*REQUIRED, *OPTIONAL)
    assert set(find_states(*(change_check(name, is_true=False) for name in names))) == {"wrong"}
