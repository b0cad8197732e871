"""Three daemons as processes, a quorum of two: one report, one transaction per round."""

import pytest

from tests.integration.reporters.reporter_group import QUORUM, ReporterGroup


@pytest.mark.nightly
def test_three_daemons_agree_and_send_every_round_once(three: ReporterGroup):
    three.start()
    for _ in range(4):
        number = three.round_of(*three.members)
        assert len({digest for daemon in three.members for digest in daemon.digests(number)}) == 1
    three.caught_up()

    three.check_digests()
    three.check_bytes(min_shared=5)
    # Each indexes in its own windows, as the logs show; the machine decides when.
    assert len({daemon.windows() for daemon in three.members}) > 1
    for rank, member in enumerate(three.members):
        (started_entry,) = member.lines("reporter_started")
        assert (started_entry["signer"], started_entry["transmitter"]) == (
            member.signer,
            member.transmitter,
        )
        assert (started_entry["rank"], started_entry["quorum"]) == (rank, QUORUM)
        assert started_entry["peers"] == [peer.url for peer in three.members if peer is not member]
