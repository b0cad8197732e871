"""`nodes --without-task`: the nodes that a legacy network would send a system task."""

import json

import pytest

from oracle.cli.main import run
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import ZERO_HASH, Hash
from oracle.domain.state import Membership
from oracle.store.database import Store
from tests.support.cli.local_network import write_config
from tests.support.cli.refusal import run_refused_command
from tests.support.histories import make_node_address
from tests.unit.systems.crynux.scenes import NOW, a_node

HEAD = BlockRef(7, Hash("0x" + "77" * 32), ZERO_HASH, NOW)
WINDOW = 1_000
LEGACY = {
    "set": "legacy",
    "change": {
        "legacy.vram_weight": "0.2",
        "legacy.timeout_weight": "0.2",
        "legacy.speed_weight": "0.6",
        "legacy.least_timeout_seconds": "60",
        "legacy.kickout_below": "4",
        "legacy.kickout_tasks": "10",
        "legacy.window_seconds": str(WINDOW),
    },
}


@pytest.fixture
def settings(offline_settings, sqlite_url):
    present = NOW // WINDOW
    worked = {"window_sum": 30, "window_count": 2}
    nodes = [
        a_node("now", window=present, **worked),
        a_node("earlier", window=present - 1, **worked),
        a_node("never"),
        a_node("gone", membership=Membership.QUIT),
    ]
    with Store.open(sqlite_url) as store, store.transaction() as uow:
        uow.nodes.save(nodes)
        uow.cursor.move_to(HEAD, None, 0)
    offline_settings["database"]["url"] = sqlite_url
    return offline_settings


def test_without_task_option_lists_members_without_a_recent_task(capsys, settings, tmp_path):
    path = write_config(settings | {"rules": LEGACY}, tmp_path / "config.toml")
    assert run(["nodes", "--without-task", "--json", "--config", str(path)]) == 0
    listed = {row["node"] for row in json.loads(capsys.readouterr().out)["nodes"]}

    assert listed == {make_node_address("earlier"), make_node_address("never")}


def test_without_task_option_requires_rules_with_a_window(capsys, settings, tmp_path):
    path = write_config(settings, tmp_path / "config.toml")
    line = run_refused_command(capsys, "nodes", "--without-task", "--config", path)

    assert "--without-task: rule set crynux has no windows" in line
