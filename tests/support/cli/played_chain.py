"""A chain with a history, and the database that real runs of the daemon built from it.

Twelve nodes run more than fifty waves of tasks, with bursts of timeouts, pauses, rounds, a kickout
and draws.
"""

import json
from fcntl import LOCK_EX, flock
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from devnet.demo.demo_nodes import BLOCK_SECONDS, MOODY
from devnet.demo.stage import ETHER, MODEL, VERSION
from oracle.bindings.codec import decode_result, encode_call
from oracle.chain.decode.abi import load_abi
from oracle.cli.main import run
from tests.support.cli.local_network import LocalNetwork, Settings, run_local_network, write_config

# A pool of fifty is full and the kickout is due; and the number of parts in which the daemon
# reads.
_WAVES, _PARTS = 52, 4
# Rounds until the veto time of a proposal is over, and a few more.
_MOST_ROUNDS = 24
# The number of tasks drawn at the end, twice.
_DRAWN = 4
# A node is excluded for longer than the rest takes; and the minimum timeout of a task.
_TIMEOUTS, _TASK_SECONDS = 4, 60
_DISPATCH = {
    "start_block": 0,
    "queue_alpha": 2,
    "fixed_seconds": {"sd": 10, "llm": 10, "sd_ft": 60},
    "unit_seconds": {"sd": 20, "llm": 30, "sd_ft": 600},
}


@pytest.fixture(scope="session")
def played_chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the configuration of a database with a complete history, shared by all workers."""
    base = tmp_path_factory.getbasetemp()
    # With pytest-xdist, each worker has a folder in a common folder.
    shared = base.parent if base.name.startswith("popen-") else base
    folder = shared / "played-chain"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as one_at_a_time:
        flock(one_at_a_time, LOCK_EX)
        config = folder / "config.toml"
        return config if config.exists() else build_indexed_chain(folder)


def build_indexed_chain(folder: Path) -> Path:
    """Build the chain, let the daemon index it into a database in `folder`.

    Return the settings file.
    """
    with TemporaryDirectory() as keys, run_local_network(Path(keys)) as network:
        settings = _add_dispatch_settings(network, network.settings(folder))
        path = write_config(settings, Path(keys) / "config.toml")
        for _ in range(_PARTS):
            network.play(_WAVES // _PARTS)
            _report_once(network, path)
        for _ in range(_MOST_ROUNDS):
            if _has_emitted(network, "KickExecuted"):
                break
            network.play(1)
            _report_once(network, path)
        _time_out_until_excluded(network, MOODY.name)
        _start_and_draw_tasks(network, path)
        return _remove_chain_settings(settings, folder)


def _report_once(network: LocalNetwork, path: Path) -> None:
    """Run the daemon until it has reported and has seen its report land."""
    for _ in range(2):
        _run_once(path)
        network.mine(3)


def _run_once(path: Path, *flags: str) -> None:
    assert run(["run", "--once", "--publish", *flags, "--config", str(path)]) == 0


def _add_dispatch_settings(network: LocalNetwork, settings: Settings) -> Settings:
    files = {"keystore": "json", "password_file": "password"}
    for part, ending in files.items():
        settings["keys"][f"dispatcher_{part}"] = str(network.keys / f"dispatcher.{ending}")
    return {**settings, "dispatch": _DISPATCH, "log": {"format": "json", "level": "error"}}


def _time_out_until_excluded(network: LocalNetwork, name: str) -> None:
    """Let a node time out until it is excluded, so that one node is excluded at the end."""
    stage, chain = network.stage, network.stage.chain
    for number in range(_TIMEOUTS):
        order = _build_order(number)
        calldata = encode_call("TaskNetwork", "keyOf", stage.creator, order[0])
        response = chain.make_request(
            "eth_call", {"to": stage.network, "data": calldata}, "latest"
        )
        key = decode_result("TaskNetwork", "keyOf", response)[0]
        node = stage.nodes[name]
        created = _build_creation(network, order)
        started = stage.build_transaction(stage.creator, "TaskNetwork", "startTask", key, node)
        chain.mine(network.clock.advance(), [created, started])
        network.mine(_TASK_SECONDS // BLOCK_SECONDS + 1)
        over = stage.build_transaction(stage.creator, "TaskNetwork", "timeOutTask", key)
        chain.mine(network.clock.advance(), [over])


def _start_and_draw_tasks(network: LocalNetwork, path: Path) -> None:
    """Make our account the dispatcher, start some tasks, and only draw nodes for others."""
    stage, chain = network.stage, network.stage.chain
    keystore = json.loads((network.keys / "dispatcher.json").read_text("utf-8"))
    dispatcher = "0x" + keystore["address"].removeprefix("0x").lower()
    chain.make_request("anvil_setBalance", dispatcher, hex(10 * ETHER))
    admin, *_ = chain.make_request("eth_accounts")
    chosen = stage.build_transaction(admin, "TaskNetwork", "setDispatcher", dispatcher)
    chain.mine(network.clock.advance(), [chosen])
    _order_tasks(network, _TIMEOUTS)
    _run_once(path, "--dispatch")
    network.mine(1)
    _run_once(path, "--dispatch")
    _order_tasks(network, _TIMEOUTS + _DRAWN)
    _run_once(path)


def _order_tasks(network: LocalNetwork, first: int) -> None:
    """Order tasks with these numbers, and mine the seed block of their draws."""
    orders = [_build_creation(network, _build_order(first + number)) for number in range(_DRAWN)]
    network.stage.chain.mine(network.clock.advance(), orders)
    network.mine(2)


def _build_creation(network: LocalNetwork, order: tuple[object, ...]) -> dict[str, str]:
    """Return the transaction that orders a task."""
    stage = network.stage
    return stage.build_transaction(
        stage.creator, "TaskNetwork", "createTask", order, value=ETHER // 10
    )


def _build_order(number: int) -> tuple[object, ...]:
    """Return the struct Order of TaskNetwork, for a task without a group."""
    alone = (bytes(32), 0)
    image = 0
    any_gpu = (0, "", 0)
    return (bytes([number + 1]) * 32, *alone, image, *any_gpu, [MODEL], *VERSION, 1, _TASK_SECONDS)


def _has_emitted(network: LocalNetwork, event: str) -> bool:
    log_filter = {
        "address": network.stage.oracle,
        "fromBlock": "0x0",
        "topics": [load_abi("roots/QoSRoots").get_event(event).digest],
    }
    return bool(network.stage.chain.make_request("eth_getLogs", log_filter))


def _remove_chain_settings(settings: Settings, folder: Path) -> Path:
    """Return the settings that `serve` needs: chain and keys are removed."""
    remaining_settings = {
        name: section for name, section in settings.items() if name not in {"keys", "dispatch"}
    }
    served: Settings = {
        "api": {"port": 0, "requests_per_second": 10_000},
        "log": {"format": "json"},
    }
    return write_config({**remaining_settings, **served}, folder / "config.toml")
