"""An omitted log of a round stops the daemon, and the command that the error names repairs it."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from devnet.fakechain.faults import block_faults, log_faults
from oracle.cli.main import run
from tests.support.ingest.daemons import write_daemon_config
from tests.support.ingest.event_encoding import build_transactions
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY
from tests.support.ingest.reading import add_fault, build_log_matcher
from tests.support.traffic import build_accepted_round

pytestmark = pytest.mark.slow

INVENTED_ROOTS = {"receiptsRoot": "0x" + "00" * 32, "transactionsRoot": "0x" + "00" * 32}


@pytest.fixture
def unprovable_chain() -> Iterator[FakeChain]:
    """Return a chain without rounds, whose headers prove nothing, behind one endpoint."""
    with ExitStack() as stack:
        chain = FakeChain(stack)
        chain.serve().faults += [
            block_faults.build_zero_bloom_fault(),
            block_faults.build_changed_header_fault(INVENTED_ROOTS),
        ]
        yield chain


def test_daemon_continues_after_repair_of_an_omitted_round(
    unprovable_chain: FakeChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    chain = unprovable_chain
    settings = ["--config", str(write_daemon_config(chain, tmp_path))]
    exit_codes = []
    for number in (1, 2, 3):
        block = chain.show(
            chain.tree.mine(build_transactions([build_accepted_round(number)]), chain.head)
        )
        if number == 2:
            add_fault(chain, log_faults.build_omitted_logs_fault(build_log_matcher(block)))
        chain.mine_empty(FINALITY + 1)
        exit_codes.append(run(["run", "--once", *settings]))
        if number == 2:
            # From now on the endpoint is honest.
            chain.provider.faults.pop()

    assert exit_codes == [0, 0, 1]
    assert "round 3 in block 21 does not follow round 1; a log is missing" in (
        capsys.readouterr().err
    )
    assert run(["resync", "verify", "--repair", *settings]) == 1
    assert "only on the chain: log 0 of block 11" in capsys.readouterr().out
    assert run(["run", "--once", *settings]) == 0
