"""The admin replaces signers while a report is signed and not sent yet."""

from pathlib import Path

import pytest

from tests.integration.reporters.company import company
from tests.support.cli.local_network import LocalNetwork, Settings


def after_a_while(name: str, settings: Settings) -> None:
    """Nobody sends at once: there is time between a quorum and its transaction."""
    if name == "a":
        settings["reporters"].update(transmit_rank=1, transmit_delay_seconds=60)


@pytest.mark.nightly
def test_report_of_replaced_signers_is_not_stranded_and_next_round_uses_new_signers(
    network: LocalNetwork, tmp_path: Path, empty_postgresql_url: str
):
    databases = ["", empty_postgresql_url, ""]
    with company(network, tmp_path, databases, after_a_while) as three:
        a, *others = three.members
        # A report is due already: no time passes until it is told to.
        three.start()
        three.until_signed(1, *three.members)
        a.until(a.intents, "a planned push")
        planned = a.intents()[0].request.calldata
        gone = next(one for one in others if one.signature(1) in planned)
        kept = [one for one in three.members if one is not gone]
        three.set_signers([one.signer for one in kept])
        three.landed(1)
        assert [one.sender for one in three.check_rounds()] == [a.transmitter]

        assert three.round_of(*three.members) == 2
        gone.until(lambda: "not a signer of the contract" in gone.why_waiting(), "its word")
        three.caught_up()
        # Of round 1 they signed for the old signers, too: what nobody can push any more.
        for accepted in three.check_rounds():
            for one in kept:
                assert accepted.digest in one.digests(accepted.round or 0), one.name
        three.check_bytes(least=5)
        for one in kept:
            assert gone.signer not in one.why_waiting()
            assert len(one.lines("statement_from_unknown_signer", signer=gone.signer)) <= 1
