"""The cells of text tables, and the tables that the tutorials show."""

import re
from pathlib import Path
from typing import Annotated

import pytest

from oracle.domain.fixed_point import UNIT
from oracle.queries.answers import ApiModel, FixedPoint
from oracle.queries.node_models import NodeEntry
from oracle.queries.text.text_tables import Column, build_table

TUTORIALS = Path(__file__).resolve().parents[3] / "docs" / "tutorial"


class Row(ApiModel):
    count: Annotated[int | None, Column("count")]
    share: Annotated[FixedPoint, Column("share")]
    optional_share: Annotated[FixedPoint | None, Column("optional share")]


def test_fixed_point_cells_are_decimals():
    rows = [
        Row(count=3, share=UNIT // 8, optional_share=UNIT // 3),
        Row(count=None, share=UNIT, optional_share=None),
    ]
    titles, cells = build_table(Row, rows, {})

    assert titles == ["count", "share", "optional share"]
    assert list(cells) == [["3", "0.1250", "0.3333"], ["-", "1.0000", "-"]]


@pytest.mark.parametrize("name", ["quickstart", "first-network"])
def test_table_of_nodes_in_tutorial_has_the_columns_of_the_command(name):
    page = (TUTORIALS / f"{name}.md").read_text("utf-8")
    header = re.search(r"^ *#  node  .*", page, re.MULTILINE)
    assert header is not None
    assert re.split(r"\s{2,}", header[0].strip()) == build_table(NodeEntry, [], {})[0]
