"""Each command imports only the modules that it needs, counted in a separate process.

The test counts modules instead of measuring the time, which depends on the machine.
"""

import gc
import os
import subprocess
import sys

import pytest
import typer
from typer.main import get_group

from oracle.cli import command_index
from oracle.cli.command_index import COMMANDS, load_module_commands
from oracle.cli.main import build_app
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import ZERO_HASH, Address, Hash
from oracle.domain.state import create_node
from oracle.store.database import Store

# The maximum number of modules that a command may import: slightly more than today.
_MAX_WITHOUT_COMMAND = 170
_MAX_OF_NODES = 612
_MAX_OF_EXPLAIN = 680
_MAX_OF_STATUS = 970
_MAX_OF_OTHERS = 1_380
_MAX_OF_DAEMON = 1_440
_MAX_BY_COMMAND = {
    "nodes": _MAX_OF_NODES,
    "explain": _MAX_OF_EXPLAIN,
    "status": _MAX_OF_STATUS,
    "run": _MAX_OF_DAEMON,
    "migrate": _MAX_OF_DAEMON,
    "serve": _MAX_OF_DAEMON,
    "gateway": _MAX_OF_DAEMON,
}

_SLOW_LIBRARIES = (
    *("web3", "eth_abi", "psycopg", "requests", "structlog", "fastapi", "alembic"),
    "sqlalchemy.dialects.postgresql",
)
_COUNT = """
import sys
from oracle.cli.main import run
arguments = sys.argv[1:]
if arguments == ["--version"]:
    run(arguments)
else:
    from oracle.cli.command_index import COMMANDS, load_module_commands
    load_module_commands(COMMANDS[arguments[0]].module)
print(*sys.modules)
"""

_RUN = """
import sys
from oracle.cli.main import run
assert run(sys.argv[1:]) == 0
print(*sys.modules)
"""
# Modules that a list of nodes does not need, and packages that only other commands need.
_UNREAD_BY_NODES = (
    *("rich", "sqlalchemy.dialects.postgresql"),
    *("oracle.domain.fold", "oracle.domain.incidents", "oracle.chain.source"),
    *("oracle.store.outbox", "oracle.store.history_repository", "oracle.store.report_repository"),
    *("oracle.store.notice_repository", "oracle.store.raw.log_repository"),
)
# Packages and modules that plan or sign calls, draw nodes, fold blocks, or repair the index.
_UNUSED_BY_STATUS = (
    *("oracle.dispatch.assigner", "oracle.dispatch.dispatch_calls", "oracle.quorum"),
    *("oracle.kickouts.kick_calls", "oracle.reporting.push_call", "oracle.systems.assignment"),
    *("oracle.daemon.compose", "oracle.daemon.senders", "oracle.daemon.contexts"),
    *("oracle.indexer.folder", "oracle.indexer.snapshots", "oracle.indexer.audit.judgement"),
)


def modules_of(command: str) -> set[str]:
    """Return the modules that a process has imported for this command."""
    done = subprocess.run(
        [sys.executable, "-c", _COUNT, command], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_version_option_imports_no_slow_library():
    modules = modules_of("--version")

    assert not modules & {*_SLOW_LIBRARIES, "sqlalchemy", "pydantic", "rich"}
    assert len(modules) <= _MAX_WITHOUT_COMMAND


@pytest.mark.slow
def test_nodes_command_imports_no_chain_or_contract_module():
    modules = modules_of("nodes")

    # With --json, no table is rendered.
    assert not modules & {*_SLOW_LIBRARIES, "oracle.chain.source", "oracle.bindings", "rich"}
    assert len(modules) <= _MAX_OF_NODES


@pytest.mark.parametrize(
    "arguments", [["nodes"], pytest.param(["nodes", "--json"], marks=pytest.mark.slow)]
)
def test_nodes_command_does_not_import_repositories_that_it_never_reads(tmp_path, arguments):
    url = f"sqlite:///{tmp_path}/index.sqlite"
    with Store.open(url, create=True) as store, store.transaction() as uow:
        uow.nodes.save([create_node(Address("0x" + "0a" * 20), 0, 0, 0)])
        uow.cursor.move_to(BlockRef(1, Hash("0x" + "01" * 32), ZERO_HASH, 1_800_000_000), None, 0)
    config = tmp_path / "config.toml"
    config.write_text(
        f"""
        [database]
        url = "{url}"
        [chain]
        id = 31337
        endpoints = ["http://127.0.0.1:1"]
        [network]
        contracts = {{ TaskNetwork = "0x{"0b" * 20}" }}
        """,
        "utf-8",
    )

    done = subprocess.run(
        [sys.executable, "-c", _RUN, *arguments, "--config", str(config)],
        capture_output=True,
        text=True,
        check=True,
    )
    modules = set(done.stdout.splitlines()[-1].split())

    assert "oracle.store.state.node_repository" in modules
    assert not {name for name in modules if name.startswith(_UNREAD_BY_NODES)}


@pytest.mark.slow
def test_status_command_imports_no_signing_or_contract_library():
    assert not modules_of("status") & {"eth_keys", "eth_utils", "eth_abi", "rlp", "web3"}


def test_status_command_imports_neither_sender_nor_rich_traceback():
    modules = modules_of("status")

    assert "structlog" in modules
    assert not modules & {"rich", "pygments", "attr"}
    assert not {name for name in modules if name.startswith(_UNUSED_BY_STATUS)}


@pytest.mark.slow
def test_run_command_imports_server_and_abi_libraries_lazily():
    assert not modules_of("run") & {
        *("fastapi", "uvicorn", "jinja2", "eth_abi", "regex", "web3", "websockets")
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_command_stays_within_its_import_limit(name):
    modules = modules_of(name)

    assert "web3" not in modules
    assert name != "explain" or not modules & {"requests", "structlog", "prometheus_client"}
    assert len(modules) <= _MAX_BY_COMMAND.get(name, _MAX_OF_OTHERS)


def test_command_index_equals_registered_commands():
    for module in sorted({command.module for command in COMMANDS.values()}):
        summary_by_name = {
            name: command.summary for name, command in COMMANDS.items() if command.module == module
        }
        assert {
            name: " ".join((command.help or "").partition("\n\n")[0].split())
            for name, command in load_module_commands(module).items()
        } == summary_by_name


def test_command_summaries_fit_on_one_line_of_help():
    assert max(len(command.summary) for command in COMMANDS.values()) <= 60


@pytest.mark.parametrize("instruction", ["--help", "complete_bash", "complete_zsh"])
def test_help_and_completion_import_no_command(instruction):
    environment = {
        **os.environ,
        "_QOS_ORACLE_COMPLETE": "" if instruction == "--help" else instruction,
        "COMP_WORDS": "qos-oracle expl",
        "COMP_CWORD": "1",
        "_TYPER_COMPLETE_ARGS": "qos-oracle expl",
    }
    arguments = ["--help"] if instruction == "--help" else []
    program = "import sys, atexit; atexit.register(lambda: print(*sys.modules))\n"
    program += "from oracle.cli.main import run\nrun(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )

    shown, modules = done.stdout.rsplit("\n", 2)[:2]
    assert "explain" in shown
    assert not set(modules.split()) & {*_SLOW_LIBRARIES, "sqlalchemy", "oracle.daemon"}


def test_garbage_collection_is_enabled_after_command_import():
    load_module_commands(COMMANDS["nodes"].module)
    assert gc.isenabled()


def test_help_lists_every_command_in_index_order():
    top = get_group(build_app())

    assert top.list_commands(typer.Context(top)) == [*COMMANDS]


def test_unknown_command_imports_nothing(monkeypatch):
    loaded_modules: list[str] = []
    monkeypatch.setattr(command_index, "load_module_commands", loaded_modules.append)

    assert "nonsense" not in get_group(build_app()).commands
    assert not loaded_modules
