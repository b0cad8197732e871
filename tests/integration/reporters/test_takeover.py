"""A leader and its standby on one database, with two other reporters of the same contract."""

import time
from pathlib import Path

import pytest

from oracle.daemon.lease_keeper import LEASE_SECONDS
from tests.integration.reporters.member import Member
from tests.integration.reporters.reporter_group import ReporterGroup, reporter_group
from tests.support.cli.local_network import LocalNetwork


def standby_of(leader: Member, folder: Path) -> Member:
    """Return another host with the leader's keys and database, and a separate listener."""
    standby = Member("standby", folder, dict(leader.settings), keys=leader.keys)
    standby.settings["oracle"] = {
        **leader.settings["oracle"],
        "evidence_folder": str(folder / "evidence"),
    }
    return standby


@pytest.mark.nightly
def test_standby_takes_over_within_two_lease_periods(
    network: LocalNetwork, tmp_path: Path, empty_postgresql_url: str
):
    with reporter_group(network, tmp_path, [empty_postgresql_url, "", ""]) as three:
        a, b, c = three.members
        standby = standby_of(a, tmp_path / "standby")
        try:
            for member in (b, c):
                member.settings["reporters"]["peers"].append(standby.url)
            three.start()
            standby.start("--standby")
            assert f"process {a.pid} " in standby.wait_for_line("waiting_for_lease")["leader"]
            run_rounds(three, standby)
        finally:
            standby.close()


def run_rounds(three: ReporterGroup, standby: Member) -> None:
    a, b, c = three.members
    three.round_of(a, b, c)
    three.due()
    number = three.round + 1
    three.until_signed(number, a, b, c)
    three.until_sent()
    a.kill()
    killed = time.monotonic()
    # Chain time does not pass, so the others leave the round to the first reporter. On a slow
    # machine, a standby takes long to start after it has acquired the lease.
    standby.wait_for_line("step_completed", did="took over")
    assert time.monotonic() - killed < 2 * LEASE_SECONDS
    standby.wait_for_line("daemon_started")
    three.members[0] = standby
    three.landed(number)
    last = three.round_of(standby, b, c)
    three.caught_up(standby, b, c)

    assert last == number + 1
    three.check_digests(standby, b, c)
    three.check_bytes(b, c, standby, min_shared=5)
    # The leaders alternate with the same key, and each round is signed once.
    accepted = three.check_rounds()
    assert {accepted_push.sender for accepted_push in accepted} == {a.transmitter}
    for push in accepted:
        assert len(standby.signed(three.contract, push.round or 0)) == 1
