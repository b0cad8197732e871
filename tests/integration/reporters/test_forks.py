"""A fork that only one reporter sees isolates it, until it returns to the chain."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from devnet.anvil import CHAIN_ID, LocalChain
from devnet.demo.stage import ACCOUNTS, ChainClock
from tests.integration.reporters.reporter_group import ReporterGroup, reporter_group
from tests.support.cli.local_network import LocalNetwork, Settings
from tests.support.evm.anvil import run_anvil
from tests.support.sending.faults import Question, return_null
from tests.support.sending.proxy import Proxy, run_proxy

# The blocks of the fork are not final for this reporter.
FINALITY_DEPTH = 60


@contextmanager
def fork_of(network: LocalNetwork) -> Iterator[LocalNetwork]:
    """Return another chain with the same blocks so far."""
    head = network.head()
    flags = (
        "--fork-url",
        network.url,
        "--fork-block-number",
        str(head),
        "--no-mining",
        "--order",
        "fifo",
    )
    with run_anvil(*flags, "--chain-id", str(CHAIN_ID), "--accounts", str(ACCOUNTS)) as url:
        chain = LocalChain(url)
        clock = ChainClock(network.clock.start)
        clock.now = network.clock.now + 5
        try:
            yield LocalNetwork(
                replace(network.stage, chain=chain), clock, network.keys, network.waves
            )
        finally:
            chain.close()


def serve_chain(network: LocalNetwork, proxies: list[Proxy]) -> None:
    """Serve this chain behind the proxies from now on."""
    for endpoint_proxy in proxies:
        endpoint_proxy.behind = network.url


def is_of_a_tag(request: Question) -> bool:
    return request["params"][0] in {"safe", "finalized"}


@pytest.mark.nightly
def test_reporter_on_a_fork_rejoins_with_the_same_digests(
    network: LocalNetwork, tmp_path: Path, empty_postgresql_url: str
):
    # Two endpoints that agree, so a fork is accepted at once.
    with run_proxy(network.url) as first_proxy, run_proxy(network.url) as second_proxy:
        proxies = [first_proxy, second_proxy]
        for endpoint_proxy in proxies:
            endpoint_proxy.rule("eth_getBlockByNumber", return_null(), when=is_of_a_tag)

        def use_proxies(name: str, settings: Settings) -> None:
            if name == "c":
                settings["chain"].update(
                    endpoints=[endpoint_proxy.url for endpoint_proxy in proxies],
                    finality_depth=FINALITY_DEPTH,
                )

        databases = ["", empty_postgresql_url, ""]
        with reporter_group(network, tmp_path, databases, use_proxies) as three:
            three.start()
            three.round_of(*three.members)
            three.caught_up()
            check_isolated_reporter(three, proxies)


def check_isolated_reporter(three: ReporterGroup, proxies: list[Proxy]) -> None:
    a, b, c = three.members
    number = three.round + 1
    with fork_of(three.network) as fork:
        serve_chain(fork, proxies)
        ReporterGroup(fork, [c]).due()
        c.until_signed(number)
        # It is alone for longer than a period.
        for _ in range(8):
            fork.mine(1)
            c.until_at(fork.head())
        c.until_lacking_signatures(number)
        three.due()
        three.until_signed(number, a, b)
        three.landed(number)
        alone = c.digests(number)
        assert not alone & a.digests(number)
        assert three.round_of(a, b) == number + 1
        serve_chain(three.network, proxies)
    three.caught_up()
    last = three.round_of(a, b, c)
    three.caught_up()

    assert c.lines("step_completed", did="rewound")
    assert len(c.digests(last)) == 1
    assert c.digests(last) == a.digests(last) == b.digests(last)
    assert c.why_waiting() == ""
    assert not alone & {push.digest for push in three.check_rounds()}
    three.check_bytes(min_shared=5)
