"""Everything that operators see is described once in the code,
from which the pages are generated.
"""

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.telemetry.log_events import LOG_EVENTS
from reference import cli_page, contracts_page, http_page, metrics_page, settings_page, tables_page
from reference.natspec import read_declarations
from reference.pages import PAGES
from reference.source_comments import read_field_comments
from tests.house.product import list_nodes, parse_sources

COMMITTED = Path(__file__).resolve().parents[3] / "docs" / "reference"
LEAST_WORDS = 3
_LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
# Functions whose argument is passed on as an event name.
_HANDED_ON = {"RepeatedWarning": 0, "_log_and_journal_conflict": 2}


def silent(described: Iterator[tuple[str, str]]) -> list[str]:
    return [name for name, about in described if len(about.split()) < LEAST_WORDS]


def test_every_setting_has_a_description():
    assert silent((setting.name, setting.about) for setting in settings_page.iter_settings()) == []


def test_every_metric_has_a_help_text():
    described = {name: about for name, _, _, about in metrics_page.list_metric_families()}
    # A few need only two words.
    assert [name for name, about in described.items() if len(about.split()) < 2] == []


def test_every_table_has_a_description():
    tables = tables_page.iter_described_tables()
    assert silent((table.name, about) for table, about in tables) == []


def test_every_server_path_has_a_docstring():
    assert silent(iter(http_page.list_routes())) == []


def test_every_command_and_option_has_a_help_text():
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


def iterate_logged_events() -> Iterator[str]:
    """Yield every event that a module of the product logs."""
    for tree in parse_sources().values():
        for node in list_nodes(tree):
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
    assert set(iterate_logged_events()) == set(LOG_EVENTS)
    assert silent(iter(LOG_EVENTS.items())) == []


@pytest.mark.parametrize("name", PAGES)
def test_committed_page_equals_the_generated_page(name: str):
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


SOLIDITY = """\
/// @title Lamp
/// @notice A lamp
/// of one color.
contract Lamp is ILamp {
    /// @notice A color.
    /// @param red 0 to 255
    struct Color {
        uint8 red;
    }

    /// @inheritdoc ILamp
    /// @dev Costs energy.
    function shine(uint256 seconds_) external onlyAdmin {
        _shine(seconds_);
    }

    event Broken();

    /// @notice Whether the lamp is on.
    bool public isOn;
}
"""
INTERFACE = """\
interface ILamp {
    /// @notice Shines.
    /// @param seconds_ how long
    function shine(uint256 seconds_) external;
}
"""


def test_solidity_comments_include_parameters_and_inherited_text(tmp_path: Path):
    sources = [tmp_path / "Lamp.sol", tmp_path / "ILamp.sol"]
    for source, text in zip(sources, (SOLIDITY, INTERFACE), strict=True):
        source.write_text(text, "utf-8")
    declared = read_declarations(sources)
    assert declared["contract", "Lamp"].notice == "A lamp of one color."
    assert declared["struct", "Color"].params == {"red": "0 to 255"}
    assert declared["variable", "isOn"].notice == "Whether the lamp is on."
    assert declared["event", "Broken"].notice == ""
    shine = declared["function", "shine"]
    assert (shine.notice, shine.role) == ("Shines. Costs energy.", "admin")
    assert shine.params == {"seconds_": "how long"}


def test_contracts_page_requires_a_comment_for_every_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    contracts = COMMITTED.parents[1] / "contracts"
    copy = tmp_path / "contracts"
    shutil.copytree(contracts, copy)
    words = copy / "roots" / "QoSWords.sol"
    text = words.read_text("utf-8")
    assert text.count("/// @notice No word was written; see WordsBrought.") == 1
    words.write_text(text.replace("/// @notice No word was written; see WordsBrought.", ""))
    monkeypatch.setattr(contracts_page, "_SOURCES", copy)
    with pytest.raises(LookupError, match="error NothingWritten: no @notice"):
        contracts_page.render_page()
