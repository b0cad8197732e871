"""The contract gets other signers while a report is on its way: theirs are gathered, and sent."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from eth_utils.address import to_checksum_address

from oracle.services.planning import plan_push
from tests.office import Premises
from tests.sending.reporters import Company, Reporter, company
from tests.services.conftest import NewStore

QUORUM = 2


@pytest.fixture
def three(premises: Premises, new_sqlite_store: NewStore, tmp_path: Path) -> Iterator[Company]:
    """The first transmits."""
    with ExitStack() as until_the_end:
        stores = [until_the_end.enter_context(new_sqlite_store()) for _ in range(3)]
        yield until_the_end.enter_context(company(premises, stores, tmp_path))


def test_who_was_removed_keeps_nobody_from_asking_the_others(three: Company):
    second, third = three.others
    third.is_down = True
    three.period()
    second.tick()
    three.first.office.index()
    planned = three.first.office.repeat(plan_push)
    assert [step.did for step in planned] == ["report signed", "push planned"]

    _signed_by(three, [second, third])
    three.first.tick()
    (waiting,) = three.first.office.intents()
    assert (waiting.state.value, waiting.error_class) == ("planned", "BadSignature")

    # What the first signed itself counts no more, and is there all the same.
    third.is_down = False
    third.tick()
    three.first.office.mine()
    three.first.tick()
    three.first.office.mine()
    assert three.premises.round == 1


def _signed_by(three: Company, reporters: Sequence[Reporter]) -> None:
    named = [to_checksum_address(one.signer) for one in reporters]
    call = three.premises.oracle.functions.setSigners(named, QUORUM)
    three.chain.send(call, sender=three.premises.network.admin)
