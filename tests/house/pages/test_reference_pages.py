"""Pages that list elements of the code are complete: events, levels, states, outcomes, limits."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from oracle.bindings.deployment import (
    DEFAULT_KEPT_ROUNDS,
    DEFAULT_KICK_LIMITS,
    DEFAULT_LAG_ROUNDS,
    DEFAULT_LIMITS,
)
from oracle.domain.coverage import CHECK_BY_LEVEL, VerificationLevel
from oracle.domain.events.network_events import TYPE_BY_NAME
from oracle.domain.reports.lanes import HIGHEST_SCORE
from oracle.domain.roots.pieces import KEPT_ROUNDS, PIECE_LEAVES
from oracle.domain.scoring.rules import Rules
from oracle.store.outbox.records import IntentState, NonceState
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from oracle.txmgr.client.send_raw import SendOutcome
from reference import included_code
from reference.pages import PARTS

DOCS = Path(__file__).resolve().parents[3] / "docs"
# Fields in which any two rule sets differ.
OF_ITS_OWN = {"name", "version"}


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def section(name: str, heading: str) -> str:
    """Return the content below a heading of the second level."""
    return page(name).split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize("path", PARTS)
def test_parts_of_a_page_equal_the_generated_parts(path: str):
    text = (DOCS.parent / path).read_text("utf-8")
    assert "made by `make reference`" in text
    assert PARTS[path](text) == text, "run `make reference`"


@pytest.mark.parametrize("functions", ["nothing", "request, nothing"])
def test_including_a_missing_function_is_rejected(functions: str):
    name = f"code of contracts/roots/consumers/SeatDraw.sol {functions}"
    part = f"<!-- {name}: made by `make reference` -->\n<!-- end of {name} -->"
    with pytest.raises(ValueError, match="there is no function nothing"):
        included_code.include_code(part)


def test_every_event_has_a_docstring():
    assert [
        name for name, kind in TYPE_BY_NAME.items() if not (kind.__doc__ or "")[:1].isupper()
    ] == []


def test_every_verification_level_has_a_row_and_a_section():
    text = page("explanation/verification.md")
    assert [
        level.name
        for level, check in CHECK_BY_LEVEL.items()
        if f"{level.name.lower()}` | {check} |".replace("nothing`", "nothing") not in text
    ] == []
    assert all(
        f"## L{level.value}: " in text
        for level in VerificationLevel
        if level is not VerificationLevel.NOTHING
    )


@pytest.mark.parametrize("states", [IntentState, NonceState])
def test_every_call_state_is_explained(states):
    states_section = section("explanation/transactions.md", "States")
    assert [
        state.value for state in states if not re.search(rf"\b{state.value}\b", states_section)
    ] == []


def test_every_send_outcome_has_a_row():
    listed = section("reference/rpc-requirements.md", "Send errors")
    assert [outcome.value for outcome in SendOutcome if f"`{outcome.value}`" not in listed] == []


def test_page_lists_all_rules_that_the_relay_changes():
    listed = section("reference/scoring-rules.md", "Relay")
    named = set(re.findall(r"`(\w+)`", listed)) & {field.name for field in fields(Rules)}
    changed = {f.name for f in fields(Rules) if getattr(CRYNUX, f.name) != getattr(RELAY, f.name)}
    # The restart times of a relay are specific to a chain.
    assert named - {"restarts"} == changed - OF_ITS_OWN


def test_kickout_limits_on_the_page_equal_deployment_defaults():
    table = section("explanation/kickouts.md", "Limits in the contract")
    limits, kick_limits = DEFAULT_LIMITS, DEFAULT_KICK_LIMITS
    assert f"| {limits.veto_delay} s, {limits.kick_rounds} |" in table
    assert f"`minOpen` | {limits.min_open} open lanes |" in table
    assert f"`maxAgeSeconds` | {limits.max_age_seconds} s |" in table
    assert f"bucket | {kick_limits.bucket_most}, one more an hour |" in table


def test_report_figures_on_the_page_equal_constants_in_code():
    text = page("reference/report-format.md")
    assert f"2 to {HIGHEST_SCORE}" in text
    assert f"last {KEPT_ROUNDS} accepted rounds" in text
    assert f"pieces of {PIECE_LEAVES:,} leaves" in text
    assert f"last {DEFAULT_KEPT_ROUNDS} rounds" in text
    assert f"`LAG` ({DEFAULT_LAG_ROUNDS})" in text
