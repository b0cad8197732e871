"""Commit messages have an area and an imperative summary."""

import pytest

from tests.house.commit_message import find_problem, main


@pytest.mark.parametrize(
    "subject",
    [
        "api: cache responses for 10 s during backfill",
        "devnet, lab: name functions in the field's words",
        "tests/house: process the list once",
        f"docs: {'a' * 66}",
        "Merge branch 'main'",
        'Revert "api: cache responses"',
        "fixup! api: cache responses",
    ],
)
def test_valid_commit_subject_is_accepted(subject):
    assert find_problem(f"{subject}\n\nWhy it was done.\n") is None


@pytest.mark.parametrize(
    ("subject", "problem"),
    [
        ("", "expected `area:"),
        ("wip", "expected `area:"),
        ("Docs: add a page", "expected `area:"),
        ("docs:add a page", "expected `area:"),
        (f"docs: {'a' * 67}", "73 characters"),
        ("docs: added a page", "'added' is not"),
        ("docs: adding a page", "'adding' is not"),
        ("docs: adds a page", "'adds' is not"),
        ("docs: a page about feeds", "'a' is not"),
        ("docs: add a page.", "full stop"),
    ],
)
def test_invalid_commit_subject_is_rejected(subject, problem):
    assert problem in (find_problem(subject) or "")


def test_invalid_commit_message_exits_with_1(tmp_path, capsys):
    message = tmp_path / "COMMIT_EDITMSG"
    message.write_text("wip\n", "utf-8")

    assert main([str(message)]) == 1
    assert capsys.readouterr().err.startswith("commit message: expected")
