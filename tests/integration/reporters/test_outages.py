"""One of three is down, dies, or stalls in the middle of a round: the others continue."""

import pytest

from tests.integration.reporters.reporter_group import ReporterGroup

# Three daemons, killed and stopped: minutes on a shared machine. CI plays the rounds of three.
pytestmark = pytest.mark.nightly


def test_rounds_continue_without_one_reporter_or_transmitter(
    three: ReporterGroup,
):
    a, b, c = three.members
    # c is down from the start.
    three.start(a, b)
    three.round_of(a, b)
    three.due()
    number = three.round + 1
    three.until_signed(number, a, b)
    three.until_sent()
    a.kill()
    three.network.mine(1)
    a.restart_after_a_kill()
    three.landed(number)
    three.round_of(a, b)
    three.start(c)
    # In its turn from the start, or in a round that it has seen.
    three.round_of(a, b)
    last = three.round_of(a, b, c)
    three.caught_up()

    assert last == three.round
    three.check_digests()
    three.check_bytes(min_shared=3)


def test_reporter_stopped_for_one_round_catches_up(
    three: ReporterGroup,
):
    a, b, c = three.members
    three.start()
    three.round_of(a, b, c)
    three.due()
    number = three.round + 1
    three.until_signed(number, a, b, c)
    # In every state of its push: planned, with a nonce, in the pool.
    a.pause()
    three.landed(number)
    passed = three.round_of(b, c)
    a.resume_or_restart()
    three.caught_up()
    last = three.round_of(a, b, c)
    three.caught_up()

    assert last > passed > number
    three.check_digests()
    three.check_bytes(min_shared=5)
    for member in three.members:
        member.until_ready()
