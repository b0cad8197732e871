"""A local network to develop against: chain, contracts, keys, a configuration, and traffic."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from oracle.demo.anvil import CHAIN_ID, LocalChain, anvil
from oracle.demo.cast import CAST
from oracle.demo.configuration import write_configuration
from oracle.demo.show import START_TIME, Key, keys_in, made_for, report_settings
from oracle.demo.stage import ACCOUNTS, Clock, Roles, Stage, set_stage
from oracle.demo.traffic import Traffic
from oracle.domain.report import rules_id
from oracle.errors import InputError
from oracle.systems.crynux.rule_sets import SEED

_SEED = 21


def devnet(folder: Path, port: int, block_seconds: float, say: Callable[[str], None]) -> None:
    """Run until interrupted; `folder` gets the keys and a configuration for `qos-oracle run`.

    Raises:
        InputError: the folder is there already, or the port is in use.
    """
    if folder.exists():
        raise InputError(f"{folder}: is there already; name a new folder or remove it")
    with anvil(port=port, accounts=ACCOUNTS, start_time=START_TIME) as url:
        chain = LocalChain(url)
        try:
            folder.mkdir(parents=True)
            clock = Clock(START_TIME)
            keys = keys_in(folder)
            stage = _staged(chain, clock, keys)
            made = made_for(folder, stage, keys, endpoint=url)
            made["chain"]["poll_seconds"] = min(1.0, block_seconds)
            write_configuration(folder / "devnet.toml", made)
            say(f"chain {CHAIN_ID} at {url}, a block every {block_seconds} s")
            say(f"TaskNetwork {stage.network}, QoSOracle {stage.oracle}, {len(CAST)} nodes")
            say("run the daemon, which also gives out the tasks:")
            say(f"qos-oracle run --publish --dispatch --config {folder / 'devnet.toml'}")
            say("Ctrl-C ends it")
            _play(stage, clock, block_seconds)
        finally:
            chain.close()


def _staged(chain: LocalChain, clock: Clock, keys: Mapping[str, Key]) -> Stage:
    return set_stage(
        chain,
        clock,
        Roles(**{role: key.address for role, key in keys.items()}),
        rules_hash=rules_id(SEED, "reference", report_settings()),
    )


def _play(stage: Stage, clock: Clock, block_seconds: float) -> None:
    """Play waves for ever, a block every so many seconds of the wall clock."""
    traffic, due = Traffic(stage, _SEED), time.monotonic()
    while True:
        head = int(stage.chain.ask("eth_blockNumber"), 16)
        stage.chain.mine(clock.next_block(), traffic.next_block(head))
        due += block_seconds
        time.sleep(max(0.0, due - time.monotonic()))
