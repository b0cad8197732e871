"""On which round a kickout is signed, and how long that is of use."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from oracle.domain.blocks import Position
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH, Hash
from oracle.domain.reports.kicks import Kick, KickState
from oracle.domain.reports.rounds import Rounds
from oracle.quorum.signing_round import (
    RECENT_ROUNDS,
    RENEWAL_ROUNDS,
    compute_min_signing_round,
    find_round_expiry_reason,
    find_signing_round,
    find_stale_round_reason,
)
from oracle.store.database import Store, UnitOfWork
from tests.support.rounds import accepted as accepted_in

TTL, SINCE = 600, 5


def digest(number: int) -> Hash:
    return Hash(f"0x{number:064x}")


@contextmanager
def accepted(folder: Path, last: int, seconds: int = 6) -> Iterator[UnitOfWork]:
    """A database that has read so many rounds, so many seconds apart."""
    rounds = Rounds()
    for number in range(1, last + 1):
        accepted_round = replace(accepted_in(number, {}, time=seconds * number), as_of=number)
        rounds.fold_block(number, [accepted_round], journal=False)
    with Store.open(f"sqlite:///{folder}/{last}.sqlite", create=True) as store:
        with store.transaction() as uow:
            uow.rounds.save_changes(rounds.drain_changes())
        with store.read_transaction() as uow:
            yield uow


def signed_on(folder: Path, last: int, seconds: int = 6) -> int | None:
    with accepted(folder, last, seconds) as uow:
        signing_round = find_signing_round(uow, SINCE, seconds * last, TTL)
    return None if signing_round is None else signing_round.round


@pytest.mark.slow
def test_kickout_is_signed_on_same_round_for_eight_rounds(tmp_path: Path):
    signing_rounds = [signed_on(tmp_path, last) for last in range(SINCE - 1, SINCE + 17)]
    assert signing_rounds == [None, *8 * [SINCE], *8 * [SINCE + 8], SINCE + 16]


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        pytest.param(60, [5, 5, 5, 5, 5, 5, 9, 9, 13], marks=pytest.mark.slow),
        pytest.param(100, [5, 5, 5, 5, 9, 9, 9, 9, 13], marks=pytest.mark.slow),
        pytest.param(200, [5, 5, 7, 7, 9, 9, 11, 11, 13], marks=pytest.mark.slow),
        pytest.param(400, [5, 6, 7, 8, 9, 10, 11, 12, 13], marks=pytest.mark.slow),
    ],
)
def test_signing_round_is_reused_for_fewer_rounds_if_rounds_are_slow(
    tmp_path: Path, seconds: int, chosen: list[int]
):
    # A signature is dead 600 s after its round; half of them are left.
    signing_rounds = [signed_on(tmp_path, last, seconds) for last in range(SINCE, SINCE + 9)]
    assert signing_rounds == chosen


def test_signed_statement_can_be_sent_throughout_the_renewal_period(tmp_path: Path):
    assert RECENT_ROUNDS - RENEWAL_ROUNDS == RENEWAL_ROUNDS
    for last in range(SINCE, SINCE + RENEWAL_ROUNDS):
        assert signed_on(tmp_path, last) == SINCE
    with accepted(tmp_path, SINCE + RENEWAL_ROUNDS + 6) as uow:
        assert find_stale_round_reason(uow, SINCE, digest(SINCE)) is None


@pytest.mark.parametrize(
    ("last", "gone", "not_sent"),
    [
        (SINCE + 14, None, None),
        (SINCE + 15, None, "too long ago"),
        (SINCE + 16, "expired", "too long ago"),
        (SINCE - 1, None, "left the chain"),
    ],
)
def test_statement_expires_after_sixteenth_later_round(
    tmp_path: Path, last: int, gone: str | None, not_sent: str | None
):
    with accepted(tmp_path, last) as uow:
        assert find_round_expiry_reason(uow, SINCE, digest(SINCE)) == gone
        assert (find_stale_round_reason(uow, SINCE, digest(SINCE)) or "None").endswith(
            f"{not_sent}"
        )


def test_statement_on_replaced_round_has_expired(tmp_path: Path):
    with accepted(tmp_path, SINCE) as uow:
        assert find_round_expiry_reason(uow, SINCE, digest(99)) == "prev_reorged"
        assert (find_stale_round_reason(uow, SINCE, digest(99)) or "").endswith("left the chain")


def test_signable_rounds_start_after_last_proposal():
    kick = Kick(
        node=ZERO_ADDRESS,
        round=9,
        evidence=ZERO_HASH,
        ready_at=0,
        dies_at=9,
        proposed_at=Position(9, 0, 0),
        state=KickState.CANCELLED,
    )
    assert compute_min_signing_round(SINCE, None) == SINCE
    assert (compute_min_signing_round(SINCE, kick), compute_min_signing_round(12, kick)) == (
        10,
        12,
    )
