"""Which module brings which command; one is imported when its command is asked for.

All of them together take two seconds to import: `--version` needs none, `nodes` needs one.
"""

import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group
from typing_extensions import override

from oracle.cli.help_words import name_values

# In the order of the help: what is below `oracle.cli`, by the word that the user types. Several
# modules where the commands of a group are too many for one.
COMMANDS = {
    "demo": "demo.demo_commands",
    "devnet": "demo.demo_commands",
    "init": "setup.init_commands",
    "run": "run_commands",
    "migrate": "migrate_command",
    "serve": "serve_commands",
    "config": "setup.config_commands",
    "rules": "inspect.rules_commands",
    "status": "inspect.status_commands",
    "nodes": "inspect.node_commands",
    "explain": "inspect.explain_commands",
    "replay": "inspect.replay_commands",
    "export": "inspect.replay_commands",
    "select": "select.select_commands",
    "queue": "select.queue_commands",
    "draws": "select.draws_commands",
    "backtest": "backtest.backtest_commands",
    "attack": "backtest.attack_commands",
    "audit": "inspect.audit_commands",
    "resync": "resync.resync_commands",
    "endpoint": "setup.endpoint_commands",
    "report": "report.report_commands report.report_push report.report_release "
    "report.report_verify",
    "kickout": "kickout.kickout_commands kickout.kickout_cancel kickout.kickout_export",
    "halt": "resync.halt_commands",
    "feed": "feed_commands",
    "notify": "notify_commands",
    "outbox": "outbox.outbox_commands",
    "contract": "setup.contract_calls setup.contract_commands setup.contract_deploy",
    "keys": "setup.key_commands",
    "selftest": "setup.selftest_commands",
    "gateway": "gateway_commands",
}


class _Commands(Mapping[str, TyperCommand | TyperGroup]):
    """The commands by name; looking one up imports its module, iterating over names does not."""

    def __init__(self) -> None:
        self._found: dict[str, TyperCommand | TyperGroup] = {}

    @override
    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        if name not in self._found:
            self._found |= registered(COMMANDS[name])
        return self._found[name]

    @override
    def __contains__(self, name: object) -> bool:
        return name in COMMANDS

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    @override
    def __len__(self) -> int:
        return len(COMMANDS)


def registered(modules: str) -> dict[str, TyperCommand | TyperGroup]:
    """Import these modules below `oracle.cli`; return their commands, with words for values."""
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
    with _garbage_left():
        for module in modules.split():
            import_module(f"oracle.cli.{module}").register(app)
    group = get_group(app)
    name_values(group)
    return dict(group.commands)  # type: ignore[arg-type]  # Typer makes no others


@contextmanager
def _garbage_left() -> Iterator[None]:
    """Look for no garbage meanwhile: what is imported stays, and to look takes an eighth more."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class CommandIndex(TyperGroup):
    """The top of the command line, which knows its commands by name alone."""

    @override
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands()  # type: ignore[assignment]  # nobody writes into it

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        found = super().resolve_command(ctx, args)
        _log_beside_answers()
        return found


def _log_beside_answers() -> None:
    """Have it logged to stderr before there are settings, and where a command takes none.

    By itself the library writes to stdout, between what a command prints. Which is slow to
    import: who has not yet gets it with the settings (`options.open_app`).
    """
    if "structlog" in sys.modules:
        import_module("oracle.telemetry.logging_setup").configure("auto", "info")
