"""Numeric codes of a contract are shown by name."""

import pytest

from oracle.cli.setup.contract_values import format_contract_value


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("is_our_code", True, "yes"),
        ("pauser", "0x" + "0" * 40, "nobody"),
        ("head.paused_until", 0, "never"),
        ("head.pushed_at", 1_800_001_920, "2027-01-15 08:32:00 UTC (1800001920)"),
        ("limits.min_interval", 0, "0 s"),
        ("limits.kick_window", 86_400, "24 h (86400 s)"),
        ("limits.max_age_seconds", 7_200, "2 h (7200 s)"),
        ("limits.kick_below", 2_000, "QoS 0.2000"),
        ("limits.fall_share", 1_000, "10.00% of the nodes"),
        ("limits.anchor_window", 200, "200 blocks"),
        ("kick_limits.kick_cooldown", 2**40 - 1, "forever"),
        ("quorum", 3, "3"),
        ("network", None, "-"),
    ],
)
def test_contract_value_is_formatted_for_operators(name: str, value: object, words: str):
    assert format_contract_value(name, value) == words
