"""Blocks on which two endpoints differ, and which no header proves, are reported as unproven."""

from pathlib import Path

import pytest

from devnet.fakechain.faults import block_faults, log_faults
from oracle.cli.main import run
from tests.support.ingest.daemons import write_daemon_config
from tests.support.ingest.event_encoding import encode_task_created_log
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.reading import add_fault, build_log_matcher

MADE_UP = {"receiptsRoot": "0x" + "00" * 32, "transactionsRoot": "0x" + "00" * 32}


@pytest.fixture
def disputed_block(fake_chain: FakeChain) -> int:
    """Return the block, on a chain that proves nothing, whose log the first endpoint hides."""
    block = fake_chain.emit(encode_task_created_log(1))
    fake_chain.live(40)
    for provider in fake_chain.providers:
        provider.faults += [
            block_faults.build_zero_bloom_fault(),
            block_faults.build_changed_header_fault(MADE_UP),
        ]
    add_fault(fake_chain, log_faults.build_omitted_logs_fault(build_log_matcher(block)))
    return block.number


def run_once(settings: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run `run --once`; return its exit code and the last line of its output."""
    capsys.readouterr()
    code = run(["run", "--once", "--config", str(settings)])
    error_lines = [
        line for line in capsys.readouterr().err.splitlines() if not line.startswith("{")
    ]
    return code, error_lines[-1] if error_lines else ""


def test_disputed_block_is_reported_on_every_run(
    fake_chain: FakeChain, disputed_block: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    settings = write_daemon_config(fake_chain, tmp_path)

    first = run_once(settings, capsys)
    second = run_once(settings, capsys)

    assert first == second
    code, output = first
    assert code == 1
    assert f"blocks {disputed_block} to {disputed_block} are unproven" in output
    assert all(url in output for url in fake_chain.urls)
    run(["status", "--config", str(settings)])
    assert "UNPROVEN" in capsys.readouterr().out


def test_verification_against_a_chosen_endpoint_ends_the_dispute(
    fake_chain: FakeChain, disputed_block: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    settings = write_daemon_config(fake_chain, tmp_path)
    run_once(settings, capsys)
    blocks = ["--from", str(disputed_block), "--to", str(disputed_block)]
    verify = ["resync", "verify", *blocks, "--level", "seamed", "--config", str(settings)]

    # The first endpoint is queried and lacks the log, so the stored row stays disputed.
    assert run(verify) == 1
    assert run_once(settings, capsys)[0] == 1
    assert run([*verify, "--endpoint", fake_chain.urls[1], "--repair"]) == 0
    assert run_once(settings, capsys)[0] == 0


def test_status_reports_that_a_single_endpoint_has_no_witness(
    fake_chain: FakeChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    del fake_chain.urls[1]
    settings = write_daemon_config(fake_chain, tmp_path)

    assert run_once(settings, capsys)[0] == 0

    run(["status", "--config", str(settings)])
    assert "unwitnessed" in capsys.readouterr().out
