"""The worked draws of tests/vectors/draw.json, with the command:
from a database and from events.
"""

import json

import pytest

from oracle.cli.main import run
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import ZERO_HASH, Hash
from oracle.store.database import Store
from tests.support.cli.local_network import write_config
from tests.support.cli.task_files import write_events, write_task
from tests.support.histories import History, make_node_address
from tests.support.vectors import load_entries, vectors_of
from tests.unit.systems.crynux.scenes import NOW, a_node
from tests.unit.systems.crynux.test_draw_vectors import node_of

HEAD = BlockRef(7, Hash("0x" + "77" * 32), ZERO_HASH, NOW)
# Every loss of reliability has healed (docs/reference/scoring-rules.md#numbers).
LONG_AFTER = 1 << 21
# The other draws need a score or an H that no short history of `crynux` produces.
BY_EVENTS = ("all weights zero*", "one candidate*", "equal weights*")


def run_draw(capsys, vector, folder, *options):
    task = write_task(folder, task=vector["task"], models=vector["models"])
    seed = vector["expected"]["seed"]
    # The worked draws use the formula alone, without a floor.
    draws = ["--seed", seed, "--draws", str(vector["draws"]), "--set", "weight_floor=0"]
    assert run(["select", "--task", str(task), *draws, *map(str, options), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def check(answer, vector):
    expected = vector["expected"]
    candidates = [row for row in answer["nodes"] if row["candidate"]]
    assert [{"node": row["node"], **row["parts"]} for row in candidates] == expected["candidates"]
    drawn = [
        {key: value for key, value in draw.items() if key != "i"} for draw in expected["drawn"]
    ]
    assert answer["draws"] == drawn
    assert answer["sum"] == drawn[0]["sum"]


@pytest.fixture
def database(offline_settings, sqlite_url):
    """Return settings for a database with the given nodes at the head."""
    offline_settings["database"]["url"] = sqlite_url

    def holding(nodes):
        with Store.open(sqlite_url) as store, store.transaction() as uow:
            uow.nodes.save(nodes)
            uow.cursor.move_to(HEAD, None, 0)
        return offline_settings

    return holding


@vectors_of("draws", file="draw")
def test_documented_draw_is_reproduced_from_database(capsys, vector, database, tmp_path):
    config = write_config(database(map(node_of, vector["nodes"])), tmp_path / "config.toml")

    answer = run_draw(capsys, vector, tmp_path, "--config", config)

    assert answer["as_of"] == {"block": HEAD.number, "time": NOW}
    check(answer, vector)


def test_configured_weight_floor_applies_to_select_command(capsys, database, tmp_path):
    settings = database([a_node("poor", stake=0), a_node("rich")])
    settings["dispatch"] = {"weight_floor": 0.25}
    path = write_config(settings, tmp_path / "config.toml")
    task_file = write_task(tmp_path, kind="sd")

    assert run(["select", "--task", str(task_file), "--config", str(path), "--json"]) == 0
    rows = {row["node"]: row for row in json.loads(capsys.readouterr().out)["nodes"]}
    assert rows[make_node_address("poor")]["weight"] == "250000000000000000"


@pytest.mark.parametrize("name", BY_EVENTS)
def test_documented_draw_is_reproduced_from_events(capsys, name, tmp_path):
    (vector,) = (entry for key, entry in load_entries().items() if name[:-1] in key)
    history = History()
    for number, node_vector in enumerate(vector["nodes"]):
        models = tuple(node_vector["on_disk"])
        history.joins(f"n{number}", stake=int(node_vector["stake"]), models=models)
        history.scores(f"n{number}", *node_vector["scores"])
    history.after(LONG_AFTER)
    for number, node_vector in enumerate(vector["nodes"]):
        if node_vector["busy"]:
            history.starts(f"busy {number}", f"n{number}")
    file = write_events(tmp_path, history)
    text = file.read_text()
    for number, node_vector in enumerate(vector["nodes"]):
        text = text.replace(make_node_address(f"n{number}"), node_vector["address"])
    file.write_text(text)

    time = history.time
    check(run_draw(capsys, vector, tmp_path, "--events", file, "--at", time), vector)
