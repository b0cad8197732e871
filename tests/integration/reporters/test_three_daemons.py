"""Three daemons as processes, a quorum of two: one answer, one transaction a round."""

import pytest

from tests.integration.reporters.company import QUORUM, Company


@pytest.mark.nightly
def test_three_daemons_agree_and_every_round_is_sent_once(three: Company):
    three.start()
    for _ in range(4):
        number = three.round_of(*three.members)
        assert len({one for each in three.members for one in each.digests(number)}) == 1
    three.caught_up()

    three.check_digests()
    three.check_bytes(least=5)
    # In windows of their own, as their logs tell; who looks when is the machine's to say.
    assert len({one.windows() for one in three.members}) > 1
    for rank, one in enumerate(three.members):
        (said,) = one.lines("reporter_started")
        assert (said["signer"], said["transmitter"]) == (one.signer, one.transmitter)
        assert (said["rank"], said["quorum"]) == (rank, QUORUM)
        assert said["peers"] == [other.url for other in three.members if other is not one]
