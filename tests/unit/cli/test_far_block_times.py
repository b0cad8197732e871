"""Block times beyond the calendar, as on chains that count milliseconds."""

import pytest

from lab.page.number_text import format_axis_time, format_time_to_second
from oracle.cli.main import run
from oracle.domain.events.jsonl import event_to_json
from oracle.queries.text.text_tables import format_block_time
from tests.support.histories import GENESIS_TIME, History


@pytest.mark.parametrize("seconds", [1_795_000_000_000, 2**63 - 1])
def test_timestamp_beyond_year_9999_is_shown_in_seconds(seconds):
    texts = {format_block_time(seconds), format_axis_time(seconds), format_time_to_second(seconds)}
    assert texts == {f"{seconds} s"}


def test_select_accepts_history_with_millisecond_times(capsys, tmp_path):
    events = tmp_path / "events.jsonl"
    task = tmp_path / "task.json"
    events.write_text(
        event_to_json(History().after(1_795_000_000_000 - GENESIS_TIME).joins("A").events[0])
    )
    task.write_text("{}")
    assert run(["select", "--events", str(events), "--task", str(task)]) == 0
    assert "1795000000000 s" in capsys.readouterr().out
