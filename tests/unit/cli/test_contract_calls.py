"""`contract calldata`: the scheduled call has the delay that the timelock reports."""

import pytest

from oracle.bindings.timelock import TimelockedCall
from oracle.cli.setup.contract_commands import build_timelocked_result
from oracle.domain.ids import Address

ORACLE, TIMELOCK = Address("0x" + "1" * 40), Address("0x" + "2" * 40)


@pytest.mark.parametrize("delay", [0, 1, 86_400])
def test_schedule_calldata_contains_the_reported_delay(delay: int):
    call = TimelockedCall(ORACLE, "0x046f7da2")
    answer = build_timelocked_result("resume", call, TIMELOCK, delay)
    assert (answer.to, answer.calldata) == (TIMELOCK, call.calldata)
    assert answer.delay_seconds == delay
    assert answer.schedule is not None
    # The delay is the last of the six arguments of `schedule`; the bytes follow in the tail.
    words = [answer.schedule[10 + 64 * index :][:64] for index in range(6)]
    assert int(words[5], 16) == delay
