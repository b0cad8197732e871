"""Runs a local network for development, from chain and contracts to traffic."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from devnet.anvil import CHAIN_ID, LocalChain, find_free_port, run_anvil
from devnet.demo.daemon_process import write_configuration
from devnet.demo.demo_nodes import DEMO_NODES
from devnet.demo.show import START_TIME, build_run_settings, create_keys
from devnet.demo.stage import ACCOUNTS, ChainClock, DaemonRoles, Stage, deploy_demo_network
from devnet.demo.traffic import DemoTraffic
from devnet.fakechain.faults.chaos import ChaosEndpoint, format_fault_counts
from devnet.fakechain.server import serve_endpoint
from oracle.errors import InputError
from oracle.resources import format_program_command

_SEED = 21
_PROXY_COUNT = 2


PrintLine = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LocalNetworkOptions:
    """The options of a local network.

    `chaos_seed` is the seed of the faulty endpoints, or None for no such endpoints. `stop` is set
    when the network must end. `on_ready` is called once with all addresses, as soon as a daemon
    may start.
    """

    port: int
    block_seconds: float
    chaos_seed: int | None = None
    stop: Event = field(default_factory=Event)
    on_ready: Callable[[Mapping[str, object]], None] = lambda _: None


def run_devnet(folder: Path, options: LocalNetworkOptions, print_line: PrintLine) -> None:
    """Run a local network until `stop` is set.

    The keys and a configuration for `qos-oracle run` are written to `folder`. With `--chaos`, the
    configuration names two proxies of the chain with random faults, while the chain's own endpoint
    stays honest.

    Raises:
        InputError: the folder already exists, or the port is in use.
    """
    if folder.exists():
        raise InputError(f"{folder}: the folder already exists; choose another one, or remove it")
    block_seconds = options.block_seconds
    with run_anvil(port=options.port, accounts=ACCOUNTS, start_time=START_TIME) as url:
        chain = LocalChain(url)
        try:
            folder.mkdir(parents=True)
            clock = ChainClock(START_TIME)
            keys = create_keys(folder)
            roles = DaemonRoles(**{role: key.address for role, key in keys.items()})
            stage = deploy_demo_network(chain, clock, roles)
            settings = build_run_settings(folder, stage, keys, endpoint=url)
            settings["chain"]["poll_seconds"] = min(1.0, block_seconds)
            settings["web"] = {"port": find_free_port()}
            settings["api"] = {"enabled": True, "port": find_free_port()}
            with _serve_daemon_endpoints(url, options.chaos_seed, print_line) as endpoints:
                settings["chain"]["endpoints"] = endpoints
                write_configuration(folder / "devnet.toml", settings)
                options.on_ready(
                    {
                        "chain_id": CHAIN_ID,
                        "endpoints": endpoints,
                        "contracts": stage.contracts,
                        "nodes": dict(stage.nodes),
                        "config": str(folder / "devnet.toml"),
                    }
                )
                print_line(f"chain {CHAIN_ID} at {url}, one block every {block_seconds} s")
                for name, address in stage.contracts.items():
                    print_line(f"{name} {address}")
                print_line(f"{len(DEMO_NODES)} nodes")
                print_line("run the daemon, which also dispatches the tasks:")
                run_arguments = ("run", "--publish", "--dispatch", "--config")
                print_line(format_program_command(*run_arguments, folder / "devnet.toml"))
                print_line(
                    "while the daemon runs, its pages are at "
                    f"http://127.0.0.1:{settings['api']['port']}/"
                )
                print_line("press Ctrl-C to stop the network")
                _mine_until_stopped(stage, clock, options)
        finally:
            chain.close()


@contextmanager
def _serve_daemon_endpoints(
    url: str, chaos_seed: int | None, print_line: PrintLine
) -> Iterator[list[str]]:
    """Yield the endpoint URLs for the daemon.

    At the end, print how often each fault began.
    """
    if chaos_seed is None:
        yield [url]
        return
    with ExitStack() as stack:
        proxies = {}
        for proxy_index in range(_PROXY_COUNT):
            # The seed is multiplied, so that two runs with consecutive seeds have no endpoint seed
            # in common.
            proxy = ChaosEndpoint(
                url,
                chaos_seed * _PROXY_COUNT + proxy_index,
                _build_fault_printer(proxy_index, print_line),
            )
            stack.callback(proxy.close)
            proxies[stack.enter_context(serve_endpoint(proxy)).url] = proxy
        for proxy_url in proxies:
            print_line(f"faulty endpoint, seed {chaos_seed}: {proxy_url}")
        try:
            yield list(proxies)
        finally:
            for proxy_url, proxy in proxies.items():
                print_line(f"{proxy_url} {format_fault_counts(proxy.mood_counts)}")


def _build_fault_printer(proxy_index: int, print_line: PrintLine) -> PrintLine:
    return lambda mood: print_line(f"endpoint {proxy_index + 1}: {mood}")


def _mine_until_stopped(stage: Stage, clock: ChainClock, options: LocalNetworkOptions) -> None:
    """Mine a block with traffic every `block_seconds` until `stop` is set.

    The seconds are wall time.
    """
    traffic = DemoTraffic(stage, _SEED)
    next_block_at = time.monotonic()
    while not options.stop.is_set():
        head = int(stage.chain.make_request("eth_blockNumber"), 16)
        stage.chain.mine(clock.advance(), traffic.build_next_transactions(head))
        next_block_at += options.block_seconds
        options.stop.wait(max(0.0, next_block_at - time.monotonic()))
