"""The output of `status` about endpoints that reject, hang or stall, for a person on call."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from devnet.fakechain.faults import transport_faults
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.chain.source import ChainSource
from oracle.cli.main import run
from oracle.daemon.chain_endpoints import CapabilityCache, open_chain, reopen_endpoints
from oracle.daemon.config.loader import Config, read_config
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.event_readers import open_reader
from oracle.daemon.records import open_records
from oracle.daemon.scheduler import JobLiveness
from oracle.domain.health import Condition, Severity
from oracle.queries.contract_view import READY_WITHIN_BLOCKS, ChainView, fetch_chain_view
from oracle.queries.endpoint_view import refresh_endpoint_views
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.cli.local_network import write_config
from tests.support.ingest.daemons import build_daemon_settings, write_daemon_config
from tests.support.ingest.endpoints import count_requests, follow_until_idle
from tests.support.ingest.fake_chain import FakeChain


@contextmanager
def open_command_source(chain: FakeChain, folder: Path) -> Iterator[tuple[Config, ChainSource]]:
    """Yield a configuration and the source of a command with all endpoints; no oracle contract."""
    config_values = build_daemon_settings(chain, folder)
    del config_values["oracle"]
    loaded_config = read_config(write_config(config_values, folder / "config.toml"))
    with open_chain(loaded_config, open_reader(loaded_config)) as source:
        yield loaded_config, source


def read_chain_view(opened: tuple[Config, ChainSource], folded: int) -> ChainView:
    with reopen_endpoints(*opened) as endpoints:
        return fetch_chain_view(endpoints, None, folded)


def stall_endpoint(chain: FakeChain, nth: int) -> None:
    chain.following.remove(chain.providers[nth])


def test_stalled_endpoint_does_not_determine_the_chain_head(fake_chain: FakeChain, tmp_path: Path):
    stall_endpoint(fake_chain, 0)
    fake_chain.mine_empty(3)
    with open_command_source(fake_chain, tmp_path) as opened:
        head_status = read_chain_view(opened, fake_chain.head.number)

    assert head_status.head is not None
    assert head_status.head.number == fake_chain.head.number


def test_chain_head_is_unknown_when_all_endpoints_are_far_behind(
    fake_chain: FakeChain, tmp_path: Path
):
    number = fake_chain.head.number
    with open_command_source(fake_chain, tmp_path) as opened:
        near = read_chain_view(opened, number + READY_WITHIN_BLOCKS)
        far = read_chain_view(opened, number + READY_WITHIN_BLOCKS + 1)

    assert near.head is not None
    assert (far.head, far.unknown_reason) == (
        None,
        f"the endpoint is only at block {number}",
    )


def test_unknown_chain_head_is_explained_by_throttling(fake_chain: FakeChain, tmp_path: Path):
    for provider in fake_chain.providers:
        provider.faults.append(transport_faults.build_429_fault(3_600))
    with open_command_source(fake_chain, tmp_path) as opened:
        head_status = read_chain_view(opened, fake_chain.head.number)

    assert head_status.head is None
    assert head_status.unknown_reason is not None
    assert head_status.unknown_reason.endswith(": throttled: HTTP 429: slow down")


@pytest.mark.parametrize("command", ["status", "selftest"])
def test_commands_do_not_query_an_endpoint_proven_wrong(
    fake_chain: FakeChain, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
):
    path = store_proven_wrong_endpoints(fake_chain, tmp_path, fake_chain.urls[:1])
    liar, honest = fake_chain.providers

    def run_command() -> None:
        run([command, "--config", str(path)])

    assert count_requests(liar, run_command) == 0
    assert count_requests(honest, run_command) > 0
    assert f"{fake_chain.urls[0]}" in capsys.readouterr().out


def test_status_reports_no_usable_endpoint_if_all_proven_wrong(
    fake_chain: FakeChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = store_proven_wrong_endpoints(fake_chain, tmp_path, fake_chain.urls)

    def run_command() -> None:
        assert run(["status", "--config", str(path)]) == Severity.DOWN

    assert [count_requests(provider, run_command) for provider in fake_chain.providers] == [0, 0]
    output = " ".join(capsys.readouterr().out.split())
    assert "NO-ENDPOINT" in output
    assert "the lag is unknown:" in output
    assert "proven wrong; `qos-oracle endpoint readmit` allows it again" in output


def store_proven_wrong_endpoints(chain: FakeChain, folder: Path, urls: Iterable[str]) -> Path:
    """Return a configuration whose database lists these endpoints as proven wrong."""
    path = write_daemon_config(chain, folder)
    assert run(["run", "--once", "--config", str(path)]) == 0
    with open_records(read_config(path)) as records, records.store.transaction() as uow:
        for url in urls:
            uow.facts.quarantine.add(url, "had other logs than the receipts of block 3")
    return path


@pytest.mark.parametrize("endpoints", [1, 2])
def test_chain_stall_is_reported_until_the_next_block(
    fake_chain: FakeChain, open_indexer: OpenIndexer, endpoints: int
):
    clock = VirtualClock()
    nowhere = CapabilityCache(None, lambda: 0.0)
    indexer = open_indexer(*fake_chain.urls[:endpoints], clock=clock)
    follow_until_idle(indexer, clock)
    watch = DaemonHealth(JobLiveness(clock))

    def stalled() -> bool:
        watch.record_heads(indexer.source.fetch_heads())
        return Condition.STALLED in watch.build_report().conditions

    assert not stalled()
    for _ in range(60):
        clock.advance(15)
        indexer.source.fetch_heads()
    assert stalled()
    (first, *_) = refresh_endpoint_views(indexer.source, nowhere)
    assert first.state == "stalled: no new block for 900 s"

    fake_chain.mine_empty(1)
    assert not stalled()
