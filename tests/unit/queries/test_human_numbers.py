"""Spans, ages, counts and facts in words."""

import re

import pytest
from hypothesis import given, strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.queries.text.human_numbers import (
    capitalize_first,
    format_age,
    format_count,
    format_duration,
    format_enumeration,
    format_gwei,
    format_ordinal,
    format_rank,
    format_two_decimals,
)
from oracle.queries.text.text_tables import format_fact, format_table, shorten_hash


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (89, "89 s"),
        (90, "1 min"),
        (5_399, "89 min"),
        (5_400, "1 h 30 min"),
        (7_200, "2 h"),
        (129_599, "35 h 59 min"),
        (129_600, "1 day 12 h"),
        (172_800, "2 days"),
        (12 * 86_400 + 7_200, "12 days"),
    ],
)
def test_span_is_formatted_in_suitable_unit(seconds: int, text: str):
    assert format_duration(seconds) == text


@given(time=st.integers(0, 1 << 34), now=st.integers(0, 1 << 34))
def test_age_distinguishes_past_from_future(time: int, now: int):
    age_text = format_age(time, now)
    assert age_text.endswith("ahead of this machine's clock") == (time > now)
    assert age_text.endswith("ago") == (time <= now)
    assert "-" not in age_text


def test_counts_up_to_twelve_are_spelled_out_with_correct_plural():
    assert [format_count(n, "timeout") for n in (0, 1, 2, 13)] == [
        *("no timeouts", "one timeout", "two timeouts", "13 timeouts")
    ]
    assert format_count(2, "success", "successes") == "two successes"
    assert capitalize_first(format_count(12, "node")) == "Twelve nodes"


def test_ranks_up_to_eight_are_spelled_out():
    assert [format_rank(n) for n in (1, 3, 8, 9)] == ["first", "third", "eighth", "9th"]
    assert [format_ordinal(n) for n in (1, 2, 11, 12, 21, 103, 112)] == [
        *("1st", "2nd", "11th", "12th", "21st", "103rd", "112th")
    ]


def test_lists_are_joined_with_commas_and_conjunction():
    assert [
        format_enumeration(["a"]),
        format_enumeration(["a", "b"]),
        format_enumeration(["a", "b", "c"]),
    ] == [*("a", "a and b", "a, b, and c")]


@given(units=st.integers(0, UNIT))
def test_decimal_is_rounded_down_to_two_digits(units: int):
    formatted_decimal = format_two_decimals(units)
    assert re.fullmatch(r"[01]\.\d\d", formatted_decimal)
    assert 0 <= units - int(formatted_decimal.replace(".", "")) * UNIT // 100 < UNIT // 100


@given(words=st.lists(st.text("abc0x", min_size=1, max_size=70), min_size=1, max_size=30))
def test_wrapping_lines_keeps_the_whole_text(words: list[str]):
    lines = format_fact("name", " ".join(words), 10, 80)
    assert " ".join(" ".join(lines).split()) == f"name {' '.join(words)}"
    assert all(line.startswith(" " * 10) for line in lines[1:])
    assert all(len(line) <= 80 for line in lines)
    assert len(format_fact("name", " ".join(words), 10, None)) == 1


def test_long_hash_is_shortened_to_its_prefix():
    assert shorten_hash("0x" + "ab" * 32) == "0xabababababab…"


_CELLS = st.lists(st.sampled_from(["a", "0.5000", "slow", "漢字", "x" * 30, "é"]), max_size=9)


@given(rows=st.lists(st.tuples(_CELLS.map(" ".join), _CELLS.map(" ".join)), max_size=5))
def test_table_keeps_every_character_and_wraps_at_width(rows: list[tuple[str, str]]):
    address = "0x" + "ab" * 20
    lines = format_table(
        ["node", "why", "note"], [(address, *cells) for cells in rows], ("why",), 90
    )

    assert sorted("".join(lines).replace(" ", "")) == sorted(
        ("nodewhynote" + "".join(address + why + note for why, note in rows)).replace(" ", "")
    )
    assert sum(line.startswith(address) for line in lines) == len(rows)
    assert all(len(line) <= 90 for line in lines)


def test_table_columns_are_right_aligned_except_for_text_columns():
    rows = [("0xa", "ok", "1"), ("0xbb", "漢字", "22")]

    assert format_table(["node", "status", "#"], rows, ("status",)) == [
        "node  status   #",
        "0xa   ok       1",
        "0xbb  漢字    22",
    ]


@pytest.mark.parametrize(
    ("wei", "text"),
    [(14, "0.000000014"), (10**9, "1"), (12_345 * 10**9, "12345"), (0, "0")],
)
def test_amounts_in_gwei_are_exact_and_have_no_exponent(wei, text):
    assert format_gwei(wei) == text
