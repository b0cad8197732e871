"""The view of an operator on an endpoint that was proven wrong, and its readmission."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from devnet.fakechain.faults import log_faults, transport_faults
from oracle.cli.main import run
from oracle.domain.health import Severity
from oracle.store.database import Store
from tests.support.cli.daemon import start_daemon
from tests.support.cli.local_network import write_config
from tests.support.ingest.daemons import build_daemon_settings, write_daemon_config
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.lying import alter_log
from tests.support.ingest.reading import add_busy_blocks, add_fault


@pytest.fixture
def busy_chain(fake_chain: FakeChain) -> FakeChain:
    return add_busy_blocks(fake_chain)


def run_command(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, str]:
    capsys.readouterr()
    code = run(list(command))
    captured = capsys.readouterr()
    return code, captured.out + captured.err


@pytest.fixture
def config_with_proven_liar(
    busy_chain: FakeChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Path:
    """Return a configuration whose first endpoint was proven wrong by `run --once`.

    Two providers remain: with only one of them, no block would be confirmed as final.
    """
    busy_chain.serve()
    alter_log(busy_chain)
    path = write_daemon_config(busy_chain, tmp_path)
    code, output = run_command(capsys, "run", "--once", "--config", str(path))
    assert (code, "endpoint_proven_wrong" in output) == (0, True)
    return path


def test_endpoint_proven_wrong_is_excluded_until_readmitted(
    busy_chain: FakeChain, config_with_proven_liar: Path, capsys: pytest.CaptureFixture[str]
):
    liar = busy_chain.urls[0]
    at = ("--config", str(config_with_proven_liar))

    # There is no contract, either.
    code, output = run_command(capsys, "status", *at)
    assert (code, f"PROVEN-WRONG  {liar} is not used: returned 1 logs" in output) == (
        Severity.DOWN,
        True,
    )
    status = json.loads(run_command(capsys, "status", "--json", *at)[1])
    assert list(status["endpoints_proven_wrong"]) == [liar]
    assert status["suspect_blocks"] == 0
    assert status["endpoints"][0]["state"].startswith("quarantined: proven wrong")
    before = len(busy_chain.provider.received_requests)
    code, output = run_command(capsys, "endpoint", "probe", *at)
    assert (code, "`qos-oracle endpoint readmit`" in output) == (1, True)
    last = str(busy_chain.head.number - 10)
    verifying = ("resync", "verify", "--from", "0", "--to", last)
    assert run_command(capsys, *verifying, *at)[0] == 0
    busy_chain.live(2)
    assert run_command(capsys, "run", "--once", *at)[0] == 0
    assert len(busy_chain.provider.received_requests) == before
    assert run_command(capsys, *verifying, "--endpoint", liar, *at)[0] == 1

    code, output = run_command(capsys, "endpoint", "readmit", liar, "--dry-run", *at)
    assert (code, "would be readmitted" in output) == (0, True)
    code, output = run_command(capsys, "endpoint", "readmit", liar, "--json", *at)
    assert (code, json.loads(output)["readmitted"]) == (0, True)
    assert run_command(capsys, "endpoint", "readmit", liar, *at)[0] == 2
    busy_chain.provider.faults.clear()
    assert run_command(capsys, "run", "--once", *at)[0] == 0
    assert len(busy_chain.provider.received_requests) > before
    assert run_command(capsys, "endpoint", "probe", *at)[0] == 0


def keep_only_lying_endpoint(busy_chain: FakeChain, config_with_proven_liar: Path) -> None:
    """Remove the honest endpoints from the settings."""
    alone = build_daemon_settings(busy_chain, config_with_proven_liar.parent)
    alone["chain"]["endpoints"] = busy_chain.urls[:1]
    write_config(alone, config_with_proven_liar)


def test_only_endpoint_is_not_queried_after_it_is_proven_wrong(
    busy_chain: FakeChain, config_with_proven_liar: Path, capsys: pytest.CaptureFixture[str]
):
    keep_only_lying_endpoint(busy_chain, config_with_proven_liar)
    before = len(busy_chain.provider.received_requests)

    for _ in range(2):
        code, output = run_command(
            capsys, "run", "--once", "--config", str(config_with_proven_liar)
        )
        assert (code, "`qos-oracle endpoint readmit`" in output) == (1, True)
    assert len(busy_chain.provider.received_requests) == before


def test_daemon_waits_until_its_only_endpoint_is_readmitted(
    busy_chain: FakeChain, config_with_proven_liar: Path, capsys: pytest.CaptureFixture[str]
):
    keep_only_lying_endpoint(busy_chain, config_with_proven_liar)
    busy_chain.provider.faults.clear()

    with start_daemon(config_with_proven_liar) as running:
        running.url = running.wait_for("waiting_for_endpoint")["web"]
        running.wait_for_text(
            "/readyz",
            f"{busy_chain.urls[0]}: quarantined: proven wrong; `qos-oracle endpoint readmit`",
        )
        assert (
            run_command(
                capsys,
                "endpoint",
                "readmit",
                busy_chain.urls[0],
                "--config",
                str(config_with_proven_liar),
            )[0]
            == 0
        )
        running.url = running.wait_for("daemon_started")["web"]
        running.wait_until_ready()


def test_run_once_fails_until_suspect_blocks_are_confirmed(
    busy_chain: FakeChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = write_daemon_config(busy_chain, tmp_path)
    at = ("--config", str(path))
    assert run_command(capsys, "run", "--once", *at)[0] == 0
    store = Store.open(f"sqlite:///{tmp_path / 'oracle.sqlite'}")
    with closing(store), store.transaction() as uow:
        uow.facts.quarantine.add(busy_chain.urls[0], "a lie")
    silent = add_fault(
        busy_chain,
        transport_faults.build_http_status_fault(503, methods=log_faults.LOG_AND_RECEIPT_METHODS),
        1,
    )

    def suspects() -> int:
        return int(json.loads(run_command(capsys, "status", "--json", *at)[1])["suspect_blocks"])

    before = suspects()
    assert before == busy_chain.head.number + 1
    for _ in range(2):
        # They are read again first, because no usable endpoint has returned them.
        code, output = run_command(capsys, "run", "--once", *at)
        assert (code, f"{busy_chain.urls[0]}: quarantined: proven wrong" in output) == (1, True)
        assert f"{busy_chain.urls[1]}: unreachable: HTTP 503" in output
    assert suspects() == before
    assert "UNAUDITED" in run_command(capsys, "status", *at)[1]
    busy_chain.providers[1].faults.remove(silent)
    assert run_command(capsys, "run", "--once", *at)[0] == 0
    assert suspects() == 0


def test_indexing_continues_while_suspect_blocks_are_unavailable(
    busy_chain: FakeChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = write_daemon_config(busy_chain, tmp_path)
    at = ("--config", str(path))
    assert run_command(capsys, "run", "--once", *at)[0] == 0
    store = Store.open(f"sqlite:///{tmp_path / 'oracle.sqlite'}")
    with closing(store), store.transaction() as uow:
        uow.facts.quarantine.add(busy_chain.urls[0], "a lie")
        suspect = uow.cursor.get()
    assert suspect is not None
    for method in ("eth_getLogs", "eth_getBlockReceipts", "eth_getTransactionReceipt"):
        pruned = transport_faults.build_http_status_fault(
            503, methods=method, for_blocks=(0, suspect.number)
        )
        add_fault(busy_chain, pruned, 1)
    busy_chain.live(3)

    code, _ = run_command(capsys, "run", "--once", *at)

    with (
        closing(Store.open(f"sqlite:///{tmp_path / 'oracle.sqlite'}")) as store,
        store.read_transaction() as uow,
    ):
        reached = uow.cursor.get()
    assert reached is not None
    assert (code, reached.number) == (1, busy_chain.head.number)
