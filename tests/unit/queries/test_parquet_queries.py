"""The queries of the reference page run as printed, and return correct results."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.accepted_rounds import remove_contract_events
from tests.support.traffic import Traffic
from tests.support.txmgr.follower import RULES, Follower, mine_blocks

pytest.importorskip("pyarrow")

from oracle.indexer.rules_binding import bind_or_check_rules
from oracle.queries.parquet.parquet_export import export_blocks, load_export_source
from oracle.queries.parquet.parquet_folder import ParquetFolder
from oracle.store.database import Store
from tests.support.scripted import ScriptedReader

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "parquet.md"
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def exported(new_sqlite_database, tmp_path_factory):
    """Return a folder with a history that was exported in two runs, and its nodes at the end."""
    working_folder = tmp_path_factory.mktemp("exported")
    with Store.open(new_sqlite_database()) as store:
        chain = mine_blocks(Traffic(5).blocks(60))
        chain.finality_depth = 0
        follower = Follower(chain, store)
        for more in (0, 60):
            mine_blocks(remove_contract_events(Traffic(6).blocks(more)), chain)
            follower.catch_up()
            with store.transaction() as uow:
                bind_or_check_rules(uow, RULES)
                folder = ParquetFolder.open_for_append(
                    working_folder / "history", load_export_source(uow, ScriptedReader()), 20
                )
            export_blocks(folder, store, ScriptedReader(), lambda *_: None)
        with store.read_transaction() as uow:
            return working_folder, list(uow.nodes.iterate_all())


@pytest.fixture
def nodes(exported, monkeypatch):
    """Return the exported nodes; the working folder is that of the export."""
    working_folder, exported_nodes = exported
    monkeypatch.chdir(working_folder)
    return exported_nodes


def answers(number):
    duckdb = pytest.importorskip("duckdb")
    return duckdb.sql(QUERIES[number]).fetchall()


def test_scores_by_node_match_store(nodes):
    score_count_by_node = {row[0]: row[1] for row in answers(0)}
    assert score_count_by_node == {node.address: node.scored for node in nodes if node.scored}


def test_documented_query_returns_the_current_nodes(nodes):
    newest_rows = [(row[0], row[1], row[2]) for row in answers(1)]
    assert newest_rows == [
        (node.changed_at, node.address, node.membership.value) for node in nodes
    ]


def test_documented_query_returns_losses_of_reliability(nodes):
    loss_rows = answers(2)
    assert loss_rows
    assert all(lost > 0 for *_, lost in loss_rows)


def test_due_kickouts_query_matches_store(nodes):
    due = {node.address: node.kickout_due_since for node in nodes if node.kickout_due_since}
    assert dict(answers(3)) == {address: at.block for address, at in due.items()}


def test_task_time_quantiles_are_ascending(nodes):
    ((seconds,),) = answers(4)
    assert seconds == sorted(seconds)
    assert seconds[0] > 0


@pytest.mark.parametrize("program", PROGRAMS)
def test_polars_programs_list_every_scored_node(nodes, program):
    pytest.importorskip("polars")
    names: dict[str, Any] = {}
    exec(program.replace("print(", "found = ("), names)  # noqa: S102 - our own page
    found_nodes = set(names["found"]["node"])
    scored = {node.address for node in nodes if node.scored}
    assert scored <= found_nodes <= {node.address for node in nodes}
