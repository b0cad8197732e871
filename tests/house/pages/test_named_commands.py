"""Every command in a document, an alert or a message exists and has the named options."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from oracle.cli.main import build_app
from tests.house.product import PACKAGES, ROOT

PAGES = ("README.md", "CONTRIBUTING.md", "docs/**/*.md")
WHERE = (
    *PAGES,
    "ops/**/*.yml",
    "ops/**/*.service",
    *(f"{package}/**/*.{suffix}" for package in PACKAGES for suffix in ("py", "html")),
)
# In backticks, or the rest of a line that shows a command.
NAMED = re.compile(
    r"`([^`\n]+)`|(?:^\s+|\$ )(qos-oracle .+)$|Example: (qos-oracle .+?)[\"']"
    r"|<code>(qos-oracle [^<]+)</code>",
    re.MULTILINE,
)
WORD = re.compile(r"[a-z][a-z-]*")
OPTION = re.compile(r"(?<!\S)(--[a-z][a-z-]*)")
GROUPS = ("outbox", "report", "kickout", "halt", "resync", "endpoint", "keys", "contract")


def texts() -> Iterator[tuple[str, str]]:
    for pattern in WHERE:
        for path in sorted(ROOT.glob(pattern)):
            yield str(path.relative_to(ROOT)), path.read_text("utf-8")


def find_named_commands() -> list[tuple[str, str]]:
    """Return every named command, with the first file that names it."""
    path_by_command: dict[str, str] = {}
    for path, text in texts():
        # Python concatenates adjacent string literals.
        joined = re.sub(r'"\s*\n\s*f?"', "", text) if path.endswith(".py") else text
        for match in NAMED.finditer(joined):
            command_line = re.split("[#|>]", next(group for group in match.groups() if group))[
                0
            ].strip()
            parts = command_line.split()
            if not parts:
                continue
            is_group = parts[0] in GROUPS and len(parts) > 1 and WORD.fullmatch(parts[1])
            if parts[0] == "qos-oracle" and len(parts) > 1:
                path_by_command.setdefault(" ".join(parts[1:]), path)
            elif is_group:
                path_by_command.setdefault(command_line, path)
    return [(path, command_line) for command_line, path in path_by_command.items()]


@pytest.fixture(scope="module")
def commands() -> typer.core.TyperGroup:
    root_command = typer.main.get_command(build_app())
    assert isinstance(root_command, typer.core.TyperGroup)
    return root_command


def fault(commands: typer.core.TyperGroup, command_line: str) -> str | None:
    """Return what is wrong with a command line, or None if it is valid."""
    at: Any = commands
    for command_name in command_line.split():
        if not isinstance(at, typer.core.TyperGroup) or not WORD.fullmatch(command_name):
            break
        if command_name not in at.commands:
            return f"there is no command {command_name!r}"
        at = at.commands[command_name]
    valid_options = {
        name for parameter in at.params for name in (*parameter.opts, *parameter.secondary_opts)
    } | {"--help"}
    unknown = [option for option in OPTION.findall(command_line) if option not in valid_options]
    return f"it has no option {unknown[0]}" if unknown else None


def test_every_named_command_exists(commands):
    named_commands = find_named_commands()
    assert len(named_commands) > 100
    faults = [
        (path, command_line, fault(commands, command_line))
        for path, command_line in named_commands
    ]
    assert [problem for problem in faults if problem[2] is not None] == []


@pytest.mark.parametrize(
    "broken_text", ["endpoint list", "outbox release 7 --forever", "reports show"]
)
def test_missing_command_is_detected(commands, broken_text):
    assert fault(commands, broken_text) is not None


def test_wrong_option_in_a_template_is_detected(commands):
    html = "<dd><code>qos-oracle report verify --round {{ round.round }}</code></dd>"
    match = NAMED.search(html)
    assert match is not None
    assert fault(commands, str(match[4]).removeprefix("qos-oracle ")) == "it has no option --round"
    templates = {path for path, _ in find_named_commands() if path.endswith(".html")}
    assert "oracle/daemon/web/pages/templates/proof.html" in templates
