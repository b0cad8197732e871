"""The daemon dies at every commit, signature and send of a posted objection; it is made once."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oracle.bindings.objections import CONTRACT
from oracle.domain.ids import Address
from oracle.store.outbox.records import SUBMIT_OBJECTION
from tests.integration.evm.test_kickout_on_chain import fill_bad_pool, run_until_due_is_stated
from tests.integration.evm.test_objections import TERMS, Hearing
from tests.integration.evm.test_posted_objections import (
    count_objected,
    get_only_posted,
    post,
    send_posted_objections,
)
from tests.support.harness import Harness, OracleTestbed
from tests.support.sending.fuses import Crash, Deaths, Fuse, install_fuse
from tests.support.sending.journals import find_journal_gaps
from tests.support.sending.stalls import reuse_store
from tests.support.txmgr.stores import NewStore

# Every point takes seconds on a shared machine.
pytestmark = pytest.mark.timeout(900)


def test_case_f01_objection_is_sent_once_after_any_crash(
    testbed: OracleTestbed, new_store: NewStore, death_points: Deaths, tmp_path: Path
):
    contract = testbed.chain.deploy(CONTRACT, testbed.oracle.address)

    @contextmanager
    def open_hearing(emptied: NewStore) -> Iterator[Hearing]:
        with testbed.chain.undone(), emptied() as store:
            objections = Address(contract.address.lower())
            equipment = {"objection_terms": TERMS}
            harness = Harness(testbed, store, tmp_path, objections=objections, equipment=equipment)
            harness.index()
            hearing = Hearing(harness, contract)
            post(hearing)
            yield hearing
            harness.close()

    with reuse_store(new_store) as (emptied, _):
        with emptied() as store:
            harness = Harness(testbed, store, tmp_path)
            fill_bad_pool(harness)
            run_until_due_is_stated(harness)
            harness.close()
        fuse = Fuse()
        with open_hearing(emptied) as hearing, install_fuse(hearing.harness, fuse):
            send_posted_objections(hearing)
        assert fuse.unstored == []
        # Planned, ready, assigned, signed, sent, mined, final.
        assert fuse.passed.count("after a commit") >= 7
        assert fuse.passed.count("after a send") == 2
        for number, name in death_points.of(fuse.passed):
            with open_hearing(emptied) as hearing:
                with pytest.raises(Crash), install_fuse(hearing.harness, Fuse(number)):
                    send_posted_objections(hearing)
                hearing.harness.restart()
                send_posted_objections(hearing)
                where = f"{name} {number}"
                assert count_objected(hearing) == 1, where
                assert hearing.harness.states(SUBMIT_OBJECTION) == ["final"], where
                assert get_only_posted(hearing).ended_reason is None, where
                assert find_journal_gaps(hearing.harness) == [], where
