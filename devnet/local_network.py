"""A local network to develop against: chain, contracts, keys, configuration and traffic."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from devnet.anvil import CHAIN_ID, LocalChain, anvil, free_port
from devnet.demo.cast import CAST
from devnet.demo.daemon_process import write_configuration
from devnet.demo.show import START_TIME, keys_in, made_for
from devnet.demo.stage import ACCOUNTS, Clock, Roles, Stage, set_stage
from devnet.demo.traffic import Traffic
from devnet.fakechain.faults.chaos import Chaos, told
from devnet.fakechain.server import serving
from oracle.errors import InputError
from oracle.resources import format_program_command

_SEED = 21
_PROXIES = 2


Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a local network.

    `chaos_seed` is the seed of faulty endpoints, None for none. `stop` is set when the network
    must end. `on_ready` is called once with all addresses, as soon as a daemon may start.
    """

    port: int
    block_seconds: float
    chaos: int | None = None
    stop: Event = field(default_factory=Event)
    ready: Callable[[Mapping[str, object]], None] = lambda _: None


def devnet(folder: Path, options: Options, say: Say) -> None:
    """Run a local network until `stop` is set.

    `folder` gets the keys and a configuration for `qos-oracle run`. With `--chaos`, that
    configuration names two proxies of the chain that return random faults; the chain's own
    endpoint stays honest.

    Raises:
        InputError: the folder already exists, or the port is in use.
    """
    if folder.exists():
        raise InputError(f"{folder}: is there already; name a new folder or remove it")
    block_seconds = options.block_seconds
    with anvil(port=options.port, accounts=ACCOUNTS, start_time=START_TIME) as url:
        chain = LocalChain(url)
        try:
            folder.mkdir(parents=True)
            clock = Clock(START_TIME)
            keys = keys_in(folder)
            roles = Roles(**{role: key.address for role, key in keys.items()})
            stage = set_stage(chain, clock, roles)
            made = made_for(folder, stage, keys, endpoint=url)
            made["chain"]["poll_seconds"] = min(1.0, block_seconds)
            made["web"] = {"port": free_port()}
            made["api"] = {"enabled": True, "port": free_port()}
            with _endpoints(url, options.chaos, say) as endpoints:
                made["chain"]["endpoints"] = endpoints
                write_configuration(folder / "devnet.toml", made)
                options.ready(
                    {
                        "chain_id": CHAIN_ID,
                        "endpoints": endpoints,
                        "contracts": {"TaskNetwork": stage.network, "QoSOracle": stage.oracle},
                        "nodes": dict(stage.nodes),
                        "config": str(folder / "devnet.toml"),
                    }
                )
                say(f"chain {CHAIN_ID} at {url}, a block every {block_seconds} s")
                say(f"TaskNetwork {stage.network}, QoSOracle {stage.oracle}, {len(CAST)} nodes")
                say("run the daemon, which also gives out the tasks:")
                sending = ("run", "--publish", "--dispatch", "--config")
                say(format_program_command(*sending, folder / "devnet.toml"))
                say(f"its pages are at http://127.0.0.1:{made['api']['port']}/ as long as it runs")
                say("Ctrl-C ends it")
                _play(stage, clock, options)
        finally:
            chain.close()


@contextmanager
def _endpoints(url: str, chaos: int | None, say: Say) -> Iterator[list[str]]:
    """Yield the endpoint URLs for the daemon, and print the moods' counts at the end."""
    if chaos is None:
        yield [url]
        return
    with ExitStack() as stack:
        proxies = {}
        for place in range(_PROXIES):
            # Runs with consecutive seeds have no endpoint seed in common.
            proxy = Chaos(url, chaos * _PROXIES + place, _received(place, say))
            stack.callback(proxy.close)
            proxies[stack.enter_context(serving(proxy)).url] = proxy
        for address in proxies:
            say(f"an endpoint with moods, seed {chaos}: {address}")
        try:
            yield list(proxies)
        finally:
            for address, proxy in proxies.items():
                say(f"{address} {told(proxy.moods)}")


def _received(place: int, say: Say) -> Say:
    return lambda mood: say(f"endpoint {place + 1}: {mood}")


def _play(stage: Stage, clock: Clock, options: Options) -> None:
    """Play waves until stopped, with one block per `block_seconds` of wall time."""
    traffic, due = Traffic(stage, _SEED), time.monotonic()
    while not options.stop.is_set():
        head = int(stage.chain.ask("eth_blockNumber"), 16)
        stage.chain.mine(clock.next_block(), traffic.next_block(head))
        due += options.block_seconds
        options.stop.wait(max(0.0, due - time.monotonic()))
