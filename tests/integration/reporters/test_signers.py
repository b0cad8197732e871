"""The admin replaces signers while a report is signed but not sent."""

from pathlib import Path

import pytest

from tests.integration.reporters.reporter_group import reporter_group
from tests.support.cli.local_network import LocalNetwork, Settings


def after_a_while(name: str, settings: Settings) -> None:
    """Delay every send, so that there is time between a quorum and its transaction."""
    if name == "a":
        settings["reporters"].update(transmit_rank=1, transmit_delay_seconds=60)


@pytest.mark.nightly
def test_rounds_continue_if_signers_change_before_a_planned_push(
    network: LocalNetwork, tmp_path: Path, empty_postgresql_url: str
):
    databases = ["", empty_postgresql_url, ""]
    with reporter_group(network, tmp_path, databases, after_a_while) as three:
        a, *other_members = three.members
        # A report is due already: time is stopped until the test advances it.
        three.start()
        three.until_signed(1, *three.members)
        a.until(a.intents, "a planned push")
        planned = a.intents()[0].request.calldata
        gone = next(candidate for candidate in other_members if candidate.signature(1) in planned)
        remaining_members = [reporter for reporter in three.members if reporter is not gone]
        three.set_signers([reporter.signer for reporter in remaining_members])
        three.landed(1)
        assert [push.sender for push in three.check_rounds()] == [a.transmitter]

        assert three.round_of(*three.members) == 2
        gone.until(lambda: "not a signer of the contract" in gone.why_waiting(), "its word")
        three.caught_up()
        # They signed round 1 for the old signers, too; these signatures can no longer be sent.
        for accepted in three.check_rounds():
            for member in remaining_members:
                assert accepted.digest in member.digests(accepted.round or 0), member.name
        three.check_bytes(min_shared=5)
        for member in remaining_members:
            assert gone.signer not in member.why_waiting()
            assert len(member.lines("statement_from_unknown_signer", signer=gone.signer)) <= 1
