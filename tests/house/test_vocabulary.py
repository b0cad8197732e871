"""Filler words in names and banned words in texts:
their numbers only fall (CONTRIBUTING.md#words).
"""

import json
from pathlib import Path

import pytest

from tests.house import vocabulary
from tests.house.product import PACKAGES, ROOT

TO_DO = (
    "Name the things themselves (CONTRIBUTING.md#words). `python -m tests.house.vocabulary --list "
    "PACKAGE KIND` lists every empty name of a package and kind, with its line."
)
LOWER = "Fewer empty names than allowed: write the lower numbers down with `make vocabulary`."


def tree(tmp_path: Path, source: str) -> Path:
    (tmp_path / "oracle").mkdir()
    (tmp_path / "oracle" / "a.py").write_text(source, "utf-8")
    return tmp_path


def test_meaningless_name_counts_match_baseline():
    before = json.loads(vocabulary.BASELINE.read_text("utf-8"))
    now = vocabulary.count_empty_names(ROOT, PACKAGES)
    assert vocabulary.raised_numbers(before, now) == [], TO_DO
    assert now.items() <= before.items(), LOWER


def test_dialect_word_counts_match_baseline():
    before = json.loads(vocabulary.BASELINE.read_text("utf-8"))
    now = vocabulary.count_dialect_words(ROOT)
    assert vocabulary.raised_numbers(before, now) == [], TO_DO
    assert now.items() <= before.items(), LOWER


@pytest.mark.parametrize(
    ("path", "text", "kinds"),
    [
        ("docs/a.md", "The node says so.", ["speech"]),
        ("docs/a.md", "`say` and [a link](told.md)\n```\nask\n```", []),
        ("docs/archive/a.md", "The node says so.", []),
        ("oracle/a.html", "<p title='told'>{{ asked }} Nobody</p>", ["metaphor"]),
        ("contracts/A.sol", "/// @dev It is told.\nuint256 said; // asked", ["speech"]),
    ],
)
def test_dialect_words_are_counted_in_text_but_not_in_code(tmp_path, path, text, kinds):
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(text, "utf-8")
    assert [word.kind for word in vocabulary.dialect_words(tmp_path)] == kinds


def test_predicates_return_bool():
    assert list(vocabulary.wrong_predicates(ROOT, PACKAGES)) == [], (
        "is_, has_ and can_ return bool; a text is a …_reason or …_mismatch, a three-valued "
        "answer is named as a noun, and what changes something and may fail is try_…"
    )


def test_every_kind_of_meaningless_name_is_counted(tmp_path):
    source = "def _turned_down(told, node):\n    found = told\nclass OrderLook: ...\n"
    root = tree(tmp_path, source + "def all_known(): ...\n")
    counted_names = [
        (empty.kind, empty.name) for empty in vocabulary.empty_names(root, ["oracle"])
    ]
    assert sorted(counted_names) == [
        ("class", "OrderLook"),
        ("function", "all_known"),
        ("local", "found"),
        ("parameter", "told"),
    ]


@pytest.mark.parametrize(
    ("returns", "is_right"),
    [
        ("bool", True),
        ("TypeGuard[int]", True),
        ("ColumnElement[bool]", True),
        ("str | None", False),
        ("bool | None", False),
        ("None", False),
    ],
)
def test_predicate_that_does_not_return_bool_is_detected(tmp_path, returns, is_right):
    root = tree(tmp_path, f"def _is_late() -> {returns}: ...\n")
    assert (list(vocabulary.wrong_predicates(root, ["oracle"])) == []) is is_right


def numbers(**local: int) -> dict[str, dict[str, int]]:
    return {
        package: {**dict.fromkeys(vocabulary.KINDS, 0), "local": n} for package, n in local.items()
    }


def test_increase_is_rejected_even_if_another_package_decreases():
    assert vocabulary.raised_numbers(numbers(oracle=5, lab=5), numbers(oracle=6, lab=1)) == [
        "oracle.local: 6 names, 5 allowed"
    ]


def test_allowed_name_count_can_move_between_packages():
    assert vocabulary.raised_numbers(numbers(oracle=5), numbers(oracle=3, lab=2)) == []
    assert vocabulary.raised_numbers(numbers(oracle=5), numbers(oracle=3, lab=3)) == [
        "local of all packages: 6 names, 5 allowed"
    ]


def test_make_vocabulary_writes_decreases_and_rejects_increases(tmp_path, monkeypatch, capsys):
    root = tree(tmp_path, "def f(told): ...\n")
    baseline = tmp_path / "vocabulary.json"
    baseline.write_text(json.dumps({"oracle": dict.fromkeys(vocabulary.KINDS, 9)}), "utf-8")
    monkeypatch.setattr(vocabulary, "ROOT", root)
    monkeypatch.setattr(vocabulary, "PACKAGES", ("oracle",))
    monkeypatch.setattr(vocabulary, "BASELINE", baseline)
    assert vocabulary.main() == 0
    assert json.loads(baseline.read_text("utf-8"))["oracle"]["parameter"] == 1
    (root / "oracle" / "a.py").write_text("def f(told, said): ...\n", "utf-8")
    assert vocabulary.main() == 1
    assert "oracle.parameter: 2 names, 1 allowed" in capsys.readouterr().err
    assert json.loads(baseline.read_text("utf-8"))["oracle"]["parameter"] == 1
