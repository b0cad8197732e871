"""Index of the commands; a command's module is imported when the command is used.

Importing all modules takes two seconds; `--version` needs none of them, `nodes` needs one. In
`--help`, option values are shown as words (FILE, N or TEXT) instead of Python types. By default,
Typer prints `<int range>` for an option without a metavar, and adds the type to the name of an
argument.
"""

import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import typer
from typer import Context
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_group
from typing_extensions import override

_NUMBER_TYPES = ("int", "float")

# The module of each command or group, in the order of the help. This is the only place where
# `oracle` names the other packages (devnet, lab, gateway). The names are strings, because no
# module of `oracle` imports these packages.
COMMANDS = {
    "demo": "devnet.commands.demo_commands",
    "devnet": "devnet.commands.demo_commands",
    "init": "oracle.cli.setup.init_commands",
    "run": "oracle.cli.run_commands",
    "migrate": "oracle.cli.migrate_command",
    "service": "oracle.cli.service_commands",
    "serve": "oracle.cli.serve_commands",
    "mcp": "oracle.cli.mcp_command",
    "config": "oracle.cli.setup.config_commands",
    "rules": "oracle.cli.inspect.rules_commands",
    "status": "oracle.cli.inspect.status_commands",
    "nodes": "oracle.cli.inspect.node_commands",
    "explain": "oracle.cli.inspect.explain_commands",
    "advice": "oracle.cli.inspect.advice_command",
    "proof": "oracle.cli.inspect.proof_command",
    "replay": "oracle.cli.inspect.replay_commands",
    "export": "oracle.cli.inspect.replay_commands",
    "select": "oracle.cli.select_commands",
    "queue": "oracle.cli.queue_commands",
    "draws": "oracle.cli.draws_commands",
    "backtest": "lab.commands.backtest_commands",
    "attack": "lab.commands.attack_commands",
    "audit": "oracle.cli.inspect.audit_commands",
    "resync": "oracle.cli.resync.resync_commands",
    "endpoint": "oracle.cli.setup.endpoint_commands",
    "report": "oracle.cli.report_commands",
    "kickout": "oracle.cli.kickout_commands",
    "objection": "oracle.cli.objection_commands",
    "halt": "oracle.cli.resync.halt_commands",
    "feed": "oracle.cli.feed_commands",
    "notify": "oracle.cli.notify_commands",
    "subscription": "oracle.cli.subscription_commands",
    "outbox": "oracle.cli.outbox_commands",
    "contract": "oracle.cli.setup.contract_commands",
    "keys": "oracle.cli.setup.key_commands",
    "selftest": "oracle.cli.setup.selftest_commands",
    "gateway": "gateway.gateway_commands",
}


class _LazyCommands(Mapping[str, TyperCommand | TyperGroup]):
    """The commands by name; a lookup imports the module of the command, iteration imports none."""

    def __init__(self) -> None:
        self._command_by_name: dict[str, TyperCommand | TyperGroup] = {}

    @override
    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        if name not in self._command_by_name:
            self._command_by_name |= load_commands(COMMANDS[name])
        return self._command_by_name[name]

    @override
    def __contains__(self, name: object) -> bool:
        return name in COMMANDS

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    @override
    def __len__(self) -> int:
        return len(COMMANDS)


def load_commands(module_name: str) -> dict[str, TyperCommand | TyperGroup]:
    """Import a module and return its commands, with readable metavars of their options."""
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
    with _pause_gc():
        import_module(module_name).register(app)
    group = get_group(app)
    _set_value_metavars(group)
    return dict(group.commands)  # type: ignore[arg-type]  # Typer creates no other types


@contextmanager
def _pause_gc() -> Iterator[None]:
    """Disable garbage collection during imports; the first time, exclude all objects from it.

    Imported objects stay alive. Searching them for garbage, during the imports and afterwards,
    would add a third to the time of a command such as `status`.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            gc.freeze()
        if was_enabled:
            gc.enable()


class CommandIndex(TyperGroup):
    """The root command group, which lists its commands by name and imports them on demand."""

    @override
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _LazyCommands()  # type: ignore[assignment]  # the mapping is only read

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        resolved = super().resolve_command(ctx, args)
        _log_to_stderr()
        return resolved


def _log_to_stderr() -> None:
    """Send logs to stderr before the configuration is loaded, and for commands that load none.

    By default, structlog writes to stdout, which would mix logs with command output.
    Structlog is slow to import: if it is not imported yet, `options.load_config` configures it
    later.
    """
    if "structlog" in sys.modules:
        import_module("oracle.telemetry.logging_setup").configure_logging("auto", "info")


def _set_value_metavars(command_tree: TyperCommand | TyperGroup) -> None:
    """Set the value metavars of a command, or of every command in a group."""
    for command in _iter_commands(command_tree):
        for parameter in command.params:
            if isinstance(parameter, TyperArgument):
                vars(parameter)["display_type_rich"] = _hide_type
            elif isinstance(parameter, TyperOption) and parameter.metavar is None:
                vars(parameter)["display_type_rich"] = _ValueMetavar(parameter)


def _iter_commands(command_tree: object) -> Iterator[TyperCommand]:
    if isinstance(command_tree, TyperGroup):
        for subcommand in command_tree.commands.values():
            yield from _iter_commands(subcommand)
    elif isinstance(command_tree, TyperCommand):
        yield command_tree


def _hide_type(ctx: Context) -> str | None:
    """Hide the type of an argument, because the argument's name and help describe it."""
    del ctx
    return None


class _ValueMetavar:
    """The metavar of one option; choices are shown as the user types them."""

    def __init__(self, option: TyperOption) -> None:
        self._option = option

    def __call__(self, ctx: Context) -> str:
        value_type = self._option.type_descriptor
        if value_type.is_choice:
            return self._option.display_type(ctx).strip("<>")
        if value_type.is_path:
            return "FILE"
        return "N" if value_type.is_ranged or self._option.bare_type() in _NUMBER_TYPES else "TEXT"
