"""`select --verify`: anyone can repeat a draw,
and check that a task was started on the right node.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from pathlib import Path

import pytest

from devnet.demo.stage import ETHER, VERSION, Stage
from oracle.bindings.codec import decode_result, encode_call
from oracle.cli.main import run
from oracle.daemon.config.loader import read_config
from oracle.daemon.records import open_records
from oracle.domain.ids import TaskKey
from tests.support.cli.local_network import LocalNetwork, run_local_network, write_config
from tests.support.cli.refusal import run_refused_command
from tests.support.cli.task_files import write_task

pytestmark = pytest.mark.evm

SECONDS = {"sd": 5, "llm": 5, "sd_ft": 5}
DRAWN, DEFIED, WAITING = "drawn", "defied", "waiting"


@dataclass(frozen=True)
class Played:
    """A network in which one task went to the drawn node, one to another, and one had no draw."""

    config: Path
    keys: dict[str, str]
    forecast: dict[str, str]


def run_verify(capsys, config, key, code):
    assert run(["select", "--verify", key, "--config", str(config), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def create_tasks(network: LocalNetwork, names: Iterable[str]) -> dict[str, str]:
    """Create tasks without a group in one block, and mine further blocks;
    return their keys by name.
    """
    stage = network.stage
    ids = {name: sha256(name.encode()).digest() for name in names}
    # TaskNetwork's struct Order: any GPU, no model, for an hour.
    orders: list[tuple[object, ...]] = [
        (task_id, bytes(32), 0, 0, 0, "", 0, [], *VERSION, 1, 3600) for task_id in ids.values()
    ]
    network.stage.chain.mine(
        network.clock.advance(),
        [
            stage.build_transaction(stage.creator, "TaskNetwork", "createTask", order, value=ETHER)
            for order in orders
        ],
    )
    network.mine(3)
    return {name: key_of(stage, task_id) for name, task_id in ids.items()}


def in_bytes(hex_text: str) -> bytes:
    return bytes.fromhex(hex_text.removeprefix("0x"))


def key_of(stage: Stage, task: bytes) -> str:
    calldata = encode_call("TaskNetwork", "keyOf", stage.creator, task)
    answer = stage.chain.make_request(
        "eth_call", {"to": stage.network, "data": calldata}, "latest"
    )
    (key,) = decode_result("TaskNetwork", "keyOf", answer)
    return "0x" + bytes(key).hex()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder = tmp_path_factory.mktemp("verified")
    with run_local_network(folder) as network:
        settings = network.settings(folder)
        start = network.head() + 1
        settings["dispatch"] = {
            "start_block": start,
            "queue_alpha": 10,
            "fixed_seconds": SECONDS,
            "unit_seconds": SECONDS,
        }
        config = write_config(settings, folder / "config.toml")
        keys = create_tasks(network, [DRAWN, DEFIED, WAITING])
        assert run(["run", "--once", "--config", str(config)]) == 0
        yield start_two(network, config, keys)


def start_two(network: LocalNetwork, config: Path, keys: dict[str, str]) -> Played:
    """Start one task on its drawn node, and one on a node that was not drawn."""
    stage = network.stage
    forecast = {name: drawn_node(config, key) for name, key in keys.items()}
    stranger = next(node for node in stage.nodes.values() if node not in forecast.values())
    starts = {DRAWN: forecast[DRAWN], DEFIED: stranger}
    stage.chain.mine(
        network.clock.advance(),
        [
            stage.build_transaction(
                stage.creator, "TaskNetwork", "startTask", bytes.fromhex(keys[name][2:]), on
            )
            for name, on in starts.items()
        ],
    )
    assert run(["run", "--once", "--config", str(config)]) == 0
    return Played(config, keys, forecast)


def drawn_node(config: Path, key: str) -> str:
    """Return the node that the database records as drawn."""
    with open_records(read_config(config)) as records, records.store.read_transaction() as uow:
        (drawn,) = uow.draws.list_for_task(TaskKey(key))
    return drawn.node


def test_verify_passes_for_task_started_on_drawn_node(played, capsys):
    check = run_verify(capsys, played.config, played.keys[DRAWN], 0)

    assert check["verdict"] == "agrees"
    assert check["started_by"] == played.forecast[DRAWN] == check["draws"][-1]["node"]


def test_draw_can_be_recomputed_from_the_printed_values(played, capsys):
    check = run_verify(capsys, played.config, played.keys[DRAWN], 0)
    draw = check["draws"][-1]

    told_hash = in_bytes(draw["seed_hash"])
    key = in_bytes(check["task"])
    seed = sha256(told_hash + key).digest()
    assert draw["seed"] == "0x" + seed.hex()
    weights = [(candidate["node"], int(candidate["weight"])) for candidate in draw["candidates"]]
    assert weights == sorted(weights)
    assert sum(weight for _, weight in weights) == int(draw["sum"])
    x = int.from_bytes(sha256(seed + bytes(32)).digest(), "big") % int(draw["sum"])
    assert x == int(draw["x"])
    heaps = accumulate(weight for _, weight in weights)
    first = next(at for at, heap in enumerate(heaps) if heap > x)
    assert weights[first][0] == draw["node"]


def test_verify_reports_a_task_started_on_another_node(played, capsys):
    check = run_verify(capsys, played.config, played.keys[DEFIED], 1)

    assert check["verdict"] == "differs"
    assert check["draws"][-1]["node"] == played.forecast[DEFIED] != check["started_by"]


def test_waiting_task_shows_drawn_node(played, capsys):
    check = run_verify(capsys, played.config, played.keys[WAITING], 2)

    assert check["verdict"] == "waiting"
    assert check["started_by"] is None
    assert check["draws"][-1]["node"] == played.forecast[WAITING]


def test_verify_text_output_reports_difference(played, capsys):
    key = played.keys[DEFIED]
    assert run(["select", "--verify", key, "--config", str(played.config)]) == 1
    text = capsys.readouterr().out

    assert max(map(len, text.splitlines())) <= 100
    assert f"drawn      {played.forecast[DEFIED]}" in text
    assert "\ndiffers: " in text


def test_drawn_node_is_unavailable_to_other_tasks(played, capsys, tmp_path):
    options = ["--config", str(played.config), "--json"]
    assert run(["select", "--task", str(write_task(tmp_path, kind="sd")), *options]) == 0
    rows = {row["node"]: row for row in json.loads(capsys.readouterr().out)["nodes"]}
    assert rows[played.forecast[WAITING]]["why_not"] == "taken"

    assert run(["queue", *options]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["entries"]
    assert entry["drawn"] == [played.forecast[WAITING]]


def test_select_with_stateful_policy_uses_stored_events(played, capsys, tmp_path):
    options = ["--policy", "pocket", "--config", str(played.config), "--json"]
    assert run(["select", "--task", str(write_task(tmp_path, kind="sd")), *options]) == 0
    answer = json.loads(capsys.readouterr().out)

    assert answer["policy"] == "article"
    out = {row["node"]: row["why_not"] for row in answer["nodes"] if not row["candidate"]}
    assert out[played.forecast[WAITING]] == "taken"
    assert len(answer["nodes"]) - len(out) == 9


def test_all_tasks_are_verified_in_one_pass(played, capsys):
    check = run_verify(capsys, played.config, "all", 1)

    assert (check["verdict"], check["started"], check["agree"]) == ("differs", 2, 1)
    (differing,) = check["differ"]
    assert differing["task"] == played.keys[DEFIED]
    assert differing["drawn"] == played.forecast[DEFIED] != differing["started_by"]


def test_text_output_lists_differing_tasks(played, capsys):
    assert run(["select", "--verify", "all", "--config", str(played.config)]) == 1
    text = capsys.readouterr().out

    assert max(map(len, text.splitlines())) <= 100
    assert "2 tasks, 1 of them on the drawn node" in text
    assert f"differs    {played.keys[DEFIED]}" in text
    assert f"drawn was  {played.forecast[DEFIED]}" in text


@pytest.mark.parametrize("named", [DRAWN, "all"])
@pytest.mark.parametrize(
    "setting", ["DISPATCH__WEIGHT_FLOOR=0.5", "DISPATCH__START_BLOCK=1", "RULES__SET=relay"]
)
def test_verify_rejects_policy_settings_that_differ_from_the_draw(
    played, monkeypatch, named, setting
):
    name, value = setting.split("=")
    monkeypatch.setenv(f"QOS_ORACLE_{name}", value)
    task = played.keys.get(named, named)
    assert run(["select", "--verify", task, "--config", str(played.config)]) == 2


def test_unknown_task_raises_input_error(played, capsys):
    line = run_refused_command(
        capsys, "select", "--verify", "0x" + "ab" * 32, "--config", played.config
    )
    assert "task 0xabab" in line
    unnamed = run_refused_command(capsys, "select", "--verify", "1", "--config", played.config)
    assert "1: not a task; expected 0x" in unnamed


@pytest.mark.parametrize(
    "option",
    [("--policy", "relay"), ("--draws", "2"), ("--at", "5"), ("--set", "tau_seconds=5")],
    ids=lambda option: option[0],
)
def test_verify_rejects_conflicting_selection_options(capsys, option):
    line = run_refused_command(capsys, "select", "--verify", "0x" + "ab" * 32, *option)
    assert "--verify: can be combined only with" in line


def test_missing_start_block_is_reported(capsys, config):
    assert run(["migrate", "--config", str(config)]) == 0
    capsys.readouterr()
    line = run_refused_command(capsys, "select", "--verify", "0x" + "ab" * 32, "--config", config)
    assert "dispatch.start_block: required" in line
