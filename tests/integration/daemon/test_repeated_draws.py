"""A draw is repeated from stored data, long after the header of its block was pruned."""

from hashlib import sha256

import pytest
from fastapi.testclient import TestClient

from devnet.demo.stage import ETHER, VERSION
from oracle.cli.main import run
from oracle.daemon.config.loader import read_config
from oracle.daemon.event_readers import open_reader
from oracle.daemon.records import open_records
from oracle.daemon.startup import open_read_api
from oracle.domain.ids import TaskKey
from oracle.systems.weighted_draw import compute_draw_seed, draw_nodes
from tests.support.cli.local_network import LocalNetwork, run_local_network, write_config

pytestmark = pytest.mark.evm

SECONDS = {"sd": 5, "llm": 5, "sd_ft": 5}
TASKS = 4


def order(network: LocalNetwork, name: str) -> dict[str, str]:
    """Order a task without a group, for any GPU."""
    key = sha256(name.encode()).digest()
    stage = network.stage
    task_arguments: tuple[object, ...] = (key, bytes(32), 0, 0, 0, "", 0, [], *VERSION, 1, 3600)
    return stage.build_transaction(
        stage.creator, "TaskNetwork", "createTask", task_arguments, value=ETHER
    )


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """Return a database with draws of two blocks;
    those of the first are still active at the second.
    """
    folder = tmp_path_factory.mktemp("drawn")
    with run_local_network(folder) as network:
        network.play(2)
        settings = network.settings(folder)
        settings["dispatch"] = {
            "start_block": network.head() + 1,
            "queue_alpha": 10,
            "fixed_seconds": SECONDS,
            "unit_seconds": SECONDS,
        }
        path = write_config(settings, folder / "config.toml")
        for half in (range(TASKS // 2), range(TASKS // 2, TASKS)):
            chain, clock = network.stage.chain, network.clock
            chain.mine(clock.advance(), [order(network, f"task {n}") for n in half])
            network.mine(2)
        network.mine(200)
        assert run(["run", "--once", "--config", str(path)]) == 0
        yield path


def test_api_reproduces_every_draw(config):
    with open_records(read_config(config)) as records:
        with records.store.read_transaction() as uow:
            recorded = uow.draws.list_active()
        client = TestClient(open_read_api(records, open_reader(records.config), lambda: None))
        answers = [client.get(f"/v1/draws/{draw.task}/again").json() for draw in recorded]
        page = client.get(f"/draws/{recorded[0].task}").text
    assert len(recorded) == TASKS
    assert len({draw.seed_block for draw in recorded}) == TASKS // 2
    for draw, answer in zip(recorded, answers, strict=True):
        assert (answer["agrees"], answer["node"], answer["recorded"]) == (
            True,
            draw.node,
            draw.node,
        )
        pairs = [
            (candidate["node"], int(candidate["weight"])) for candidate in answer["candidates"]
        ]
        (drawn,) = draw_nodes(
            pairs, compute_draw_seed(draw.seed_hash, TaskKey(answer["seed_name"])), 1
        )
        assert (drawn.node, drawn.digest, str(drawn.x), str(drawn.total)) == (
            draw.node,
            answer["digest"],
            answer["x"],
            answer["total"],
        )
    # A node with a task is no candidate for the next one.
    assert len({len(answer["candidates"]) for answer in answers}) > 1
    assert f"/v1/draws/{recorded[0].task}/again?seed_block={recorded[0].seed_block}" in page


def test_draw_of_unknown_task_returns_404(config):
    with open_records(read_config(config)) as records:
        client = TestClient(open_read_api(records, open_reader(records.config), lambda: None))
        answer = client.get(f"/v1/draws/0x{64 * 'f'}/again")
    assert answer.status_code == 404
    assert "has no draw" in answer.json()["detail"]
