"""While the daemon catches up, it reports the remaining work with the expected end."""

from oracle.cli.inspect.status_commands import measure_catch_up
from oracle.queries.status_models import CatchingUp
from oracle.queries.text.status_text import format_catch_up_progress
from oracle.store.database import Store
from tests.support.scripted import ScriptedChain
from tests.support.txmgr.follower import Follower

NOW = 1_800_000_000


def test_blocks_left_are_shown_with_rate_and_eta():
    progress = CatchingUp(
        blocks_left=12_400, blocks_per_second=310.0, watched_seconds=2.0, until=NOW + 40
    )
    text = format_catch_up_progress(progress, NOW)
    assert text == "12,400 blocks left at 310 per second: 40 s, until about 2027-01-15 08:00 UTC"


def test_stalled_indexing_has_no_eta():
    stalled_progress = CatchingUp(
        blocks_left=7, blocks_per_second=0.0, watched_seconds=2.0, until=None
    )
    assert (
        format_catch_up_progress(stalled_progress, NOW) == "7 blocks left, none folded within 2 s"
    )


def test_progress_counts_blocks_folded_during_measurement(store: Store):
    follower = Follower(ScriptedChain(), store)
    follower.chain.mine()
    follower.catch_up()
    first = follower.chain.newest.number
    slept: list[float] = []

    def three_blocks_later(seconds: float) -> None:
        slept.append(seconds)
        for _ in range(3):
            follower.chain.mine()
        follower.catch_up()

    progress = measure_catch_up(store, first, 0.0, first + 10, three_blocks_later, NOW)
    assert progress.blocks_left == 7
    assert round(progress.blocks_per_second * progress.watched_seconds) == 3
    assert progress.until is not None
    assert slept == [0.0]
