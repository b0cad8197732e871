"""Seeds are committed to before use, and revealed after their epoch."""

from hashlib import sha256
from itertools import count

from hypothesis import given, strategies as st

from gateway.draw_seeds import DrawEpoch, DrawSeeds
from tests.support.examples import examples
from tests.unit.gateway.relays import T0

EPOCH = 600_000


def seeds() -> tuple[DrawSeeds, list[DrawEpoch]]:
    numbers = count(1)
    written: list[DrawEpoch] = []
    return DrawSeeds(EPOCH, lambda size: next(numbers).to_bytes(size, "big"), written.append), (
        written
    )


@given(st.lists(st.integers(0, 2_000_000), min_size=1).map(sorted))
@examples(100)
def test_seed_is_committed_before_its_first_draw(times: list[int]):
    draw_seeds, written = seeds()
    committed: set[str] = set()
    for t in times:
        epoch, _ = draw_seeds.reserve_counters(1, T0 + t)
        # The first epoch can only be published when it begins.
        assert epoch.commitment in committed or len(written) <= 2 or epoch.start == T0 + t
        past, open_epochs = draw_seeds.list_ended_and_open_epochs(T0 + t)
        committed |= {listed_epoch.commitment for listed_epoch in open_epochs}
        assert epoch in open_epochs
        assert all(listed_epoch.end <= T0 + t for listed_epoch in past)
        assert {sha256(listed_epoch.seed).hexdigest() for listed_epoch in past} == {
            o.commitment for o in past
        }
        assert epoch in written


def test_counters_are_never_reused_within_epoch():
    draw_seeds, _ = seeds()
    reservations = [draw_seeds.reserve_counters(3, T0 + n) for n in range(10)]
    assert [first for _, first in reservations] == list(range(0, 30, 3))
    assert len({epoch for epoch, _ in reservations}) == 1


def test_draw_after_the_end_of_an_epoch_uses_the_next_committed_epoch():
    draw_seeds, _ = seeds()
    draw_seeds.reserve_counters(1, T0)
    _, (_, following) = draw_seeds.list_ended_and_open_epochs(T0)
    epoch, counter = draw_seeds.reserve_counters(1, T0 + EPOCH)
    assert (epoch, counter) == (following, 0)


def test_seeds_of_the_previous_run_are_published_but_not_reused():
    before, written = seeds()
    before.reserve_counters(1, T0)
    after, _ = seeds()
    after._random_bytes = bytes
    after.restore_past_epochs(list(written))
    epoch, _ = after.reserve_counters(1, T0 + 1)
    past, _ = after.list_ended_and_open_epochs(T0 + 1)
    assert past == written
    assert epoch.seed not in {written_epoch.seed for written_epoch in written}
