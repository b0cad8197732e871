"""Whatever an operator meets has its one description in the code, from which pages are made."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.telemetry.log_events import LOG_EVENTS
from reference import cli_page, http_page, metrics_page, settings_page, tables_page
from reference.pages import PAGES
from reference.source_comments import read_field_comments
from tests.house.product import SOURCES

COMMITTED = Path(__file__).resolve().parents[3] / "docs" / "reference"
LEAST_WORDS = 3
_LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
# Event names that are handed on: what a call of these functions is given is one.
_HANDED_ON = {"RepeatedWarning": 0, "_record_conflict": 2}


def silent(described: Iterator[tuple[str, str]]) -> list[str]:
    return [name for name, about in described if len(about.split()) < LEAST_WORDS]


def test_every_setting_has_description():
    assert silent((setting.name, setting.about) for setting in settings_page.iter_settings()) == []


def test_every_metric_has_help_text():
    described = {name: about for name, _, _, about in metrics_page.list_metric_families()}
    # Two words are enough for a few.
    assert [name for name, about in described.items() if len(about.split()) < 2] == []


def test_every_table_has_description():
    tables = tables_page.iter_described_tables()
    assert silent((table.name, about) for table, about in tables) == []


def test_every_server_path_has_docstring():
    assert silent(iter(http_page.list_routes())) == []


def test_every_command_and_option_has_help_text():
    lacking = [
        f"{name} {parameter.opts}"
        for name, command in cli_page.iter_commands()
        for parameter in command.params
        if not (
            getattr(parameter, "help", None)
            or (isinstance(parameter.name, str) and parameter.required)
        )
    ]
    assert [name for name, command in cli_page.iter_commands() if not command.help] == []
    assert lacking == []


def logged() -> Iterator[str]:
    """Yield every event that a module of ours logs."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and (place := _place_of_event(node)) is not None:
                yield from _text(node.args[place : place + 1])


def _place_of_event(call: ast.Call) -> int | None:
    if isinstance(call.func, ast.Name):
        return _HANDED_ON.get(call.func.id)
    is_log = isinstance(call.func, ast.Attribute) and call.func.attr in _LEVELS
    return 0 if is_log and "log" in ast.unparse(call.func).partition(".")[0] else None


def _text(arguments: list[ast.expr]) -> Iterator[str]:
    for argument in arguments:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            yield argument.value


def test_logged_events_equal_listed_events():
    assert set(logged()) == set(LOG_EVENTS)
    assert silent(iter(LOG_EVENTS.items())) == []


@pytest.mark.parametrize("name", PAGES)
def test_every_page_can_be_generated(name: str):
    page = PAGES[name]()
    assert page.startswith("# ")
    assert len(page.splitlines()) > 10


@pytest.mark.parametrize("name", PAGES)
def test_committed_page_equals_generated_page(name: str):
    committed = (COMMITTED / f"{name}.md").read_text("utf-8")
    is_current = committed == PAGES[name]()
    assert is_current, f"docs/reference/{name}.md is stale; run `make reference`"


def test_multi_line_comment_is_assigned_only_to_its_own_field():
    class Example:
        # Of the first,
        # in two lines.
        first: int = 1
        second: int = 2

    assert read_field_comments(Example) == {"first": "Of the first, in two lines.", "second": ""}
