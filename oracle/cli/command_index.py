"""Lists the commands, and imports a command's module only when it is used.

Importing all modules takes two seconds, but `--version`, `--help` and completion need none of
them, and `nodes` needs one. The help of a command shows option values as words (FILE, N or TEXT)
instead of Python types. By default, Typer prints `<int range>` for an option without a metavar,
and adds the type to the name of an argument.
"""

import gc
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer import Context
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_group
from typing_extensions import override

_NUMBER_TYPES = ("int", "float")
HELP_OPTION_NAMES = ["-h", "--help"]


class IndexedCommand(NamedTuple):
    """The module that registers a command or group, and the first line of its help."""

    module: str
    summary: str


# The commands and groups, in the order of the help. Only this index names the other packages
# (devnet, lab, gateway), and only as strings, because no module of `oracle` may import them.
COMMANDS = {
    "demo": IndexedCommand(
        "devnet.commands.demo_commands",
        "Run the complete oracle on a local chain (three minutes).",
    ),
    "devnet": IndexedCommand(
        "devnet.commands.demo_commands",
        "Run a local chain with contracts and traffic until Ctrl-C.",
    ),
    "init": IndexedCommand(
        "oracle.cli.setup.init_commands",
        "Inspect a network, write its configuration, and check it.",
    ),
    "run": IndexedCommand("oracle.cli.run_commands", "Run the daemon until SIGTERM."),
    "migrate": IndexedCommand(
        "oracle.cli.migrate_command", "Upgrade the database schema to this version."
    ),
    "service": IndexedCommand(
        "oracle.cli.service_commands", "Write a service's files; back up, restore and upgrade it."
    ),
    "serve": IndexedCommand(
        "oracle.cli.serve_commands", "Serve the read API at [api] host and port until SIGTERM."
    ),
    "mcp": IndexedCommand(
        "oracle.cli.mcp_command", "Serve read-only tools to an AI assistant (MCP)."
    ),
    "config": IndexedCommand(
        "oracle.cli.setup.config_commands", "Check the configuration and everything it names."
    ),
    "rules": IndexedCommand(
        "oracle.cli.inspect.rules_commands",
        "List scoring systems and show the values of their rule sets.",
    ),
    "status": IndexedCommand(
        "oracle.cli.inspect.status_commands",
        "Show health problems, indexing progress and pending work.",
    ),
    "nodes": IndexedCommand(
        "oracle.cli.inspect.node_commands",
        "List all nodes, best first, as of the last folded block.",
    ),
    "explain": IndexedCommand(
        "oracle.cli.inspect.explain_commands",
        "Explain a node's score, the largest deductions first.",
    ),
    "advice": IndexedCommand(
        "oracle.cli.inspect.advice_command",
        "Show when a kickout is due, and what would raise the QoS.",
    ),
    "proof": IndexedCommand(
        "oracle.cli.inspect.proof_command", "Print the Merkle proof of a node's score in a round."
    ),
    "replay": IndexedCommand(
        "oracle.cli.inspect.replay_commands",
        "Score a file of events and print the result as JSON.",
    ),
    "export": IndexedCommand(
        "oracle.cli.inspect.replay_commands", "Print all events of the stored logs as JSON lines."
    ),
    "select": IndexedCommand(
        "oracle.cli.select_commands", "Show which members can get a task, with reasons and odds."
    ),
    "queue": IndexedCommand(
        "oracle.cli.queue_commands", "List waiting tasks by value, and a node's next task."
    ),
    "draws": IndexedCommand(
        "oracle.cli.draws_commands", "List active draws, whose tasks have not started yet."
    ),
    "backtest": IndexedCommand(
        "lab.commands.backtest_commands", "Compare scoring systems on the same history."
    ),
    "attack": IndexedCommand(
        "lab.commands.attack_commands", "Simulate known attacks beside an honest baseline."
    ),
    "audit": IndexedCommand(
        "oracle.cli.inspect.audit_commands", "Audit the published data of other operators."
    ),
    "resync": IndexedCommand(
        "oracle.cli.resync.resync_commands", "Rewind, rebuild, backfill and verify the index."
    ),
    "endpoint": IndexedCommand(
        "oracle.cli.setup.endpoint_commands",
        "Probe the RPC endpoints and readmit quarantined ones.",
    ),
    "report": IndexedCommand(
        "oracle.cli.report_commands", "Show, push, release, verify and compare score reports."
    ),
    "kickout": IndexedCommand(
        "oracle.cli.kickout_commands", "Inspect, accuse, execute and clear kickouts."
    ),
    "objection": IndexedCommand(
        "oracle.cli.objection_commands", "List and answer objections to kickouts; sign one."
    ),
    "halt": IndexedCommand(
        "oracle.cli.resync.halt_commands", "List and clear halts, which stop folding and sending."
    ),
    "feed": IndexedCommand(
        "oracle.cli.feed_commands", "Inspect and accept faults of the off-chain feed."
    ),
    "notify": IndexedCommand(
        "oracle.cli.notify_commands", "Test notification targets and show their delivery progress."
    ),
    "subscription": IndexedCommand(
        "oracle.cli.subscription_commands", "List and end subscriptions of node owners."
    ),
    "outbox": IndexedCommand(
        "oracle.cli.outbox_commands", "List, inspect and control the daemon's transactions."
    ),
    "contract": IndexedCommand(
        "oracle.cli.setup.contract_commands", "Deploy, inspect and check the oracle contract."
    ),
    "keys": IndexedCommand(
        "oracle.cli.setup.key_commands", "Create keys and show the configured ones."
    ),
    "selftest": IndexedCommand(
        "oracle.cli.setup.selftest_commands",
        "Test keys, endpoints, contract, database and balances.",
    ),
    "gateway": IndexedCommand(
        "gateway.gateway_commands", "Run an HTTP service that selects nodes for a gateway."
    ),
}


class _LazyCommands(Mapping[str, TyperCommand | TyperGroup]):
    """The commands by name; a lookup imports the command's module, iteration imports nothing."""

    def __init__(self) -> None:
        self._command_by_name: dict[str, TyperCommand | TyperGroup] = {}

    @override
    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        if name not in self._command_by_name:
            self._command_by_name |= load_module_commands(COMMANDS[name].module)
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


@cache
def load_module_commands(module_name: str) -> dict[str, TyperCommand | TyperGroup]:
    """Import a module and return its commands, with readable metavars for options."""
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
    with _pause_gc(), _end_process_on_interrupt():
        import_module(module_name).register(app)
    group = get_group(app)
    _adapt_help(group)
    return dict(group.commands)  # type: ignore[arg-type]  # Typer creates no other types


@contextmanager
def _pause_gc() -> Iterator[None]:
    """Disable garbage collection during imports, and exclude imported objects from it afterwards.

    Imported objects stay alive. Searching them for garbage, during the imports and afterwards,
    would add a third to the time of a command such as `status`.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        _freeze_imported_objects()
        if was_enabled:
            gc.enable()


@contextmanager
def _end_process_on_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the process during imports, without a KeyboardInterrupt.

    A KeyboardInterrupt in an import prints a traceback. It may also be swallowed by the importing
    code, so that the command would continue. Nothing has been opened or changed yet.
    """
    handler = signal.getsignal(signal.SIGINT)
    is_replaceable = (
        handler is signal.default_int_handler
        and threading.current_thread() is threading.main_thread()
    )
    if is_replaceable:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        if is_replaceable:
            signal.signal(signal.SIGINT, handler)


# The function is cached, because freezing again has little effect, and counting the frozen objects
# takes as long as a collection.
@cache
def _freeze_imported_objects() -> None:
    """Exclude all objects that exist now from garbage collection."""
    gc.freeze()


class CommandIndex(TyperGroup):
    """The root command group, which lists commands by name and imports them on demand."""

    @override
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _LazyCommands()  # type: ignore[assignment]  # the mapping is only read

    @override
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in COMMANDS.items()])

    @override
    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        # Typer would load each command to show its help in a list, and so import every module.
        # These groups contain nothing but the help.
        self.commands = {
            name: TyperGroup(name=name, help=command.summary) for name, command in COMMANDS.items()
        }
        return super().shell_complete(ctx, incomplete)

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        resolved_command = super().resolve_command(ctx, args)
        _log_to_stderr()
        return resolved_command


def _log_to_stderr() -> None:
    """Send logs to stderr until the configuration is loaded.

    Commands that load no configuration always log to stderr.

    By default, structlog writes to stdout, which would mix logs with command output. Structlog is
    slow to import. If it is not imported yet, `options.load_config` configures it later.
    """
    if "structlog" in sys.modules:
        import_module("oracle.telemetry.logging_setup").configure_logging("auto", "info")


def _adapt_help(command_tree: TyperCommand | TyperGroup) -> None:
    """Set the names of the help option and the value metavars for all commands of a tree."""
    for command in _iterate_command_tree(command_tree):
        # A command keeps the help option names of its first call, so they must not depend on the
        # caller.
        command.context_settings["help_option_names"] = HELP_OPTION_NAMES
        for parameter in command.params:
            if isinstance(parameter, TyperArgument):
                vars(parameter)["display_type_rich"] = _hide_argument_type
            elif isinstance(parameter, TyperOption) and parameter.metavar is None:
                vars(parameter)["display_type_rich"] = _ValueMetavar(parameter)


def _iterate_command_tree(command_tree: object) -> Iterator[TyperCommand | TyperGroup]:
    """Yield a command or group, and all commands and groups in it."""
    if isinstance(command_tree, TyperCommand | TyperGroup):
        yield command_tree
    if isinstance(command_tree, TyperGroup):
        for subcommand in command_tree.commands.values():
            yield from _iterate_command_tree(subcommand)


def _hide_argument_type(ctx: Context) -> str | None:
    """Hide an argument's type, because its name and help text describe it."""
    del ctx
    return None


class _ValueMetavar:
    """The metavar of an option, with choices shown as the user types them."""

    def __init__(self, option: TyperOption) -> None:
        self._option = option

    def __call__(self, ctx: Context) -> str:
        value_type = self._option.type_descriptor
        if value_type.is_choice:
            return self._option.display_type(ctx).strip("<>")
        if value_type.is_path:
            return "FILE"
        return "N" if value_type.is_ranged or self._option.bare_type() in _NUMBER_TYPES else "TEXT"
