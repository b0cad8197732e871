"""Writes the first configuration of a network: what was asked for and found, with reasons."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from oracle.cli.setup.network_survey import BlockRate, FinalityProposal
from oracle.domain.ids import Address
from oracle.errors import InputError

# An address of an endpoint may hold a key.
_OWNER_ONLY = 0o600


class NetworkAnswers(NamedTuple):
    """What a person has to say about a network; `oracle` None: nothing is reported yet."""

    endpoints: Sequence[str]
    profile: str
    contracts: Mapping[str, Address]
    oracle: Address | None
    database: str


class NetworkFindings(NamedTuple):
    """What was found out about it; `start_block` None: no endpoint has states so old."""

    rate: BlockRate
    start_block: int | None
    finality: FinalityProposal


def config_text(said: NetworkAnswers, found: NetworkFindings) -> str:
    """Return the file; whatever is not in it has its default (config/example.toml has all)."""
    contracts = ", ".join(f"{name} = {json.dumps(at)}" for name, at in said.contracts.items())
    start = (
        "# The block in which the first of the contracts was deployed, found by their code.\n"
        f"start_block = {found.start_block}"
        if found.start_block is not None
        else "# No endpoint has states so old that the block of the first contract can be found:\n"
        "# put it here, or all blocks from the first one on are read.\n"
        "start_block = 0"
    )
    return f"""\
# Made by `qos-oracle init`. What is left out has its default; config/example.toml has everything.

[database]
# SQLite keeps all in one file; PostgreSQL: "postgresql://oracle@localhost/oracle".
url = {json.dumps(said.database)}

[chain]
id = {found.rate.chain_id}
# The first does the work; name a second one of another provider, who can contradict it.
endpoints = [{", ".join(map(json.dumps, said.endpoints))}]
{start}
# When a block is final: {found.finality.why}.
finality_depth = {found.finality.depth}
finality_seconds = {found.finality.seconds}
# Blocks came every {found.rate.block_seconds:.1f} s of late.
poll_seconds = {found.rate.poll_seconds}

[network]
# How the contracts speak.
profile = {json.dumps(said.profile)}
contracts = {{ {contracts} }}

[oracle]
# contracts/QoSOracle.sol; without it everything is computed, and nothing can be reported.
{"# address =" if said.oracle is None else f"address = {json.dumps(said.oracle)}"}
# Sends reports; off: they are computed and shown only.
publish = false

[rules]
# `qos-oracle rules list` tells what each set is.
set = "seed"
"""


def write_config(path: Path, text: str) -> None:
    """Write a file that is not there yet, readable by its owner alone.

    Raises:
        InputError: it is there, or its folder cannot be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        entry = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    except FileExistsError:
        raise InputError(f"{path}: is there already; name another one by --config") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    with os.fdopen(entry, "w", encoding="utf-8") as file:
        file.write(text)
