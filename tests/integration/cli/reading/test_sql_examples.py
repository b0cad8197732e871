"""The SQL examples of the documentation run on both databases, over an indexed chain."""

import re
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from oracle.store.database import Store
from oracle.store.engine import parse_database_url
from tests.support.traffic import Traffic
from tests.support.txmgr.follower import Follower, mine_blocks

PAGE = Path(__file__).resolve().parents[4] / "docs" / "how-to" / "ask-the-database.md"
EXAMPLE = re.compile(r"^## ([^\n]+)\n\n```sql\n(.+?);\n```", re.MULTILINE | re.DOTALL)
EXAMPLES = dict(EXAMPLE.findall(PAGE.read_text("utf-8")))
# Examples for which this history has no rows.
EMPTY = {"Which notifications were sent, and where?"}


@pytest.mark.slow
def test_every_sql_example_runs_and_returns_rows(database_url: str):
    with Store.open(database_url) as store:
        Follower(mine_blocks(Traffic(3).blocks(150)), store).catch_up()
    engine = create_engine(parse_database_url(database_url))
    with engine.connect() as connection:
        rows_by_example = {
            name: connection.execute(text(sql)).all() for name, sql in EXAMPLES.items()
        }
    engine.dispose()

    assert len(EXAMPLES) == PAGE.read_text("utf-8").count("```sql")
    assert {name for name, rows in rows_by_example.items() if not rows} == EMPTY
