"""The section `[probing]`: off by default, and complete if it is present."""

from typing import Any

import pytest
from pydantic import ValidationError

from oracle.daemon.compose import build_probe_settings
from oracle.daemon.config.dispatch_section import ProbingSection, find_probing_faults
from oracle.domain.events.network_events import TaskKind

COMPLETE: dict[str, Any] = {"enabled": True, "fee_wei": 7, "max_fee_per_window_wei": 70}


def test_default_probing_settings_disable_system_tasks():
    assert build_probe_settings(ProbingSection()) is None
    assert find_probing_faults(ProbingSection(), is_dispatching=False) == []


def test_probing_settings_reach_dispatcher():
    probe_settings = build_probe_settings(
        ProbingSection(**COMPLETE, kind="llm", models=("m",), size=3)
    )
    assert probe_settings is not None
    assert (
        probe_settings.order.fee,
        probe_settings.max_fee_wei,
        probe_settings.window_seconds,
    ) == (7, 70, 86_400)
    assert (probe_settings.order.kind, probe_settings.order.models, probe_settings.order.size) == (
        TaskKind.LLM,
        ("m",),
        3,
    )


@pytest.mark.parametrize(
    ("changes", "dispatches", "words"),
    [
        ({"fee_wei": None}, True, "probing.fee_wei: missing"),
        ({"max_fee_per_window_wei": None}, True, "max_fee_per_window_wei: missing"),
        ({}, False, "requires dispatch.start_block"),
        ({"window_seconds": 60, "timeout_seconds": 31}, True, "at most half"),
    ],
)
def test_conflicting_probing_settings_are_reported(
    changes: dict[str, Any], dispatches: Any, words: str
):
    section = ProbingSection(**(COMPLETE | changes))
    (fault,) = find_probing_faults(section, is_dispatching=dispatches)
    assert words in fault


@pytest.mark.parametrize("wrong", [{"fee_wei": 0}, {"window_seconds": 1}, {"kind": "other"}])
def test_invalid_probing_value_is_rejected(wrong: dict[str, Any]):
    with pytest.raises(ValidationError):
        ProbingSection(**wrong)
