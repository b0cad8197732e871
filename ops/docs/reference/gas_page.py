"""Generates the page of gas and the costs in docs/explanation/scale.md.

Both are generated from recorded figures. `roots_gas.py` and `module_gas.py` in
`tests/contracts/roots/` measure and record the figures.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import ceil, log2

from reference.markdown import render_head, render_table
from reference.parts import ROOT, replace_parts

SCALE_PAGE = "docs/explanation/scale.md"
_RECORDED_FILES = ("tests/contracts/roots/gas.json", "tests/contracts/roots/module_gas.json")
_COSTS = re.compile(r"cost of a day at (?P<gwei>[\d.]+) gwei")

_ROUND_SIZES = (20, 1_000, 1_000_000)
_READ_SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
_DAY_SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
_MODULE_SIZES = (1_000, 1_000_000)
_RUN_LENGTHS = (1, 4, 16, 64)
_USD_PER_ETHER = 3_000
_USD_PER_GAS_AT_ONE_GWEI = _USD_PER_ETHER * 1e-9
_WHOLE_DOLLARS_FROM = 100
_HOURS_PER_DAY = 24
_MINUTES_PER_DAY = 24 * 60

_ABOUT = """\
This page is for operators who estimate the cost of publishing, and for developers who compare ways
to read a score. [Scale](../explanation/scale.md#cost-on-chain) computes the cost of a day.

Unless a row states something else, the figures are the gas of whole transactions on Anvil, with
the base cost and the input. The contracts are compiled as in `abi/`. A figure may differ by a few
dozen gas, because signatures and hashes contain different numbers of zero bytes.
"""
_CONSUMERS = """\
The contracts are in `contracts/roots/consumers/`. That folder also contains simulated registries,
which store the same data as the real registries.
"""
_MEASURE = """\
These commands measure and record the figures, which nightly tests check with a tolerance of 1 %:

    .venv/bin/python tests/contracts/roots/roots_gas.py
    .venv/bin/python tests/contracts/roots/module_gas.py
"""

# These figures cannot be measured again, because the contract was deleted.
_EARLIER_ABOUT = """\
`QoSOracle`, which `QoSRoots` replaced, stored a lane for each node and was never deployed. The
figures were measured with its last version. Figures with "≈" were computed from smaller sizes.
"""
_EARLIER_ROWS = (
    (
        "a round, 3 signatures, every lane changes",
        *("≈ 84,900", "458,133", "≈ 386,000,000 in 62 rounds"),
    ),
    (
        "registration of all nodes, 1 signature, once",
        *("≈ 621,000", "≈ 26,600,000", "≈ 26,600,000,000"),
    ),
    ("`proposeKick`", *3 * ("97,064",)),
    ("`executeKick`", *3 * ("61,654",)),
    ("`weightOf`, within a transaction", *3 * ("11,378",)),
)

_PEERS = (
    (
        "`QoSRoots`, three signatures",
        "one transaction: {push}",
        "a proof: {read_small} (1,000 nodes) to {read_large} (1,000,000 nodes)",
        "this page",
    ),
    (
        "SSV, oracle of effective balances",
        "one transaction of each oracle; three of four are needed",
        "a proof for each cluster",
        "[ssv-network#352](https://github.com/ssvlabs/ssv-network/pull/352)",
    ),
    (
        "Lido, prover of the community staking module",
        "-",
        "about 300,000 for each proven withdrawal or slashing (their estimate)",
        "[research.lido.fi](https://research.lido.fi/t/csm-prover-bot-funding/8378)",
    ),
    (
        "Chronicle, Scribe with five signers",
        "`poke` 81,025; `opPoke` 68,944, for one value",
        "-",
        "[scribe, benchmarks](https://github.com/chronicleprotocol/scribe/blob/main/docs/Benchmarks.md)",
    ),
    (
        "ERC-8004, feedback of one reviewer",
        "-",
        "about 220,000 for each feedback (reported from Base)",
        "[trustless-agents-erc-ri#13](https://github.com/ChaosChain/trustless-agents-erc-ri/issues/13)",
    ),
)


def render_page() -> str:
    """Render the page of gas costs as Markdown."""
    page_parts = [
        render_head("Gas", "the figures that tests recorded", about=_ABOUT),
        "## Rounds\n",
        _render_rounds(),
        "## Reading a score by proof\n",
        _render_reads(),
        "## The hot set\n",
        "`QoSWords` stores lanes, sixteen in a word. Anyone can write lanes with a proof.\n",
        _render_hot_set(),
        "## Kickouts and roles\n",
        _render_kickouts(),
        "## Objections\n",
        _render_objections(),
        "## Examples of consumers\n",
        _CONSUMERS,
        _render_consumers(),
        "## The earlier contract\n",
        _EARLIER_ABOUT,
        render_table(_build_column_titles(_ROUND_SIZES), _EARLIER_ROWS),
        "## Other oracles\n",
        _render_other_oracles(),
        "## Measure\n",
        _MEASURE,
    ]
    return "\n".join(page_parts)


def update_costs(page_text: str) -> str:
    """Update the tables of daily costs in the text of a page."""
    return replace_parts(
        page_text, _COSTS, lambda match: _render_daily_costs(float(match["gwei"]))
    )


# --- tables ---


def _build_column_titles(sizes: Sequence[int]) -> tuple[str, ...]:
    return ("", *(f"{size:,} nodes" for size in sizes))


def _render_rounds() -> str:
    rows = [
        (
            f"`QoSRoots`, {quorum} signature{'s' if quorum > 1 else ''}",
            *(
                _format_recorded_gas(f"push, {size} nodes, quorum {quorum}")
                for size in _ROUND_SIZES
            ),
        )
        for quorum in (1, 3, 5)
    ]
    first_rounds = _format_extra_push_gas("in the first 256 rounds")
    old_block = _format_extra_push_gas("as of 292 blocks back")
    notes_text = (
        f"\nEach of the first 256 rounds costs {first_rounds} gas more. A round whose as-of block "
        f"is more than\n256 blocks old costs {old_block} gas more (EIP-2935).\n"
    )
    return render_table(_build_column_titles(_ROUND_SIZES), rows) + notes_text


def _render_reads() -> str:
    name_by_title = {
        "score, within a transaction": "read by proof, {} nodes, inside",
        "score, with leaf and proof in the input": "read by proof, {} nodes, with its input",
        "absence of an address, within a transaction": "absence by proof, {} nodes, inside",
    }
    rows = [
        (title, *(_format_recorded_gas(name.format(size)) for size in _READ_SIZES))
        for title, name in name_by_title.items()
    ]
    note = (
        "\n`weightOf` of the hot set costs "
        f"{_format_recorded_gas('weightOf in the hot set, inside')} within a transaction.\n"
    )
    return render_table(("", *(f"{size:,}" for size in _READ_SIZES)), rows) + note


def _render_hot_set() -> str:
    rows = [
        (
            f"write lanes, runs of {run} word{'s' if run > 1 else ''}, per node",
            *(
                _format_recorded_gas(f"words, {size} nodes, run of {run}, each node")
                for size in _MODULE_SIZES
            ),
        )
        for run in _RUN_LENGTHS
    ]
    rows += [
        (
            f"bind nodes to seats, {count} at once, per node",
            *(
                _format_recorded_gas(f"bind a seat, {size} nodes, {count} at once, each")
                for size in _MODULE_SIZES
            ),
        )
        for count in (1, 16)
    ]
    proofs = _get_recorded_gas("words, 1000 nodes, run of 64") / _get_recorded_gas(
        "read by proof, 1000 nodes, with its input"
    )
    note = (
        f"\nWith 1,000 nodes, writing all words of a round costs as much as {proofs:.0f} reads by "
        "proof. If consumers\nread fewer nodes in a round, proofs are less expensive.\n"
    )
    return render_table(_build_column_titles(_MODULE_SIZES), rows) + note


def _render_kickouts() -> str:
    rows = [
        (f"`{name}`", *(_format_recorded_gas(f"{name}, {size} nodes") for size in _ROUND_SIZES))
        for name in ("accuse", "executeKick", "clear")
    ]
    table = render_table(_build_column_titles(_ROUND_SIZES), rows)
    role_calls = ("veto", "setSigners, 3", "pauseFor", "strike, 1 round", "strike, 256 rounds")
    role_rows = [(name, _format_recorded_gas(name)) for name in role_calls]
    return f"{table}\n{render_table(('call of a role', 'gas'), role_rows)}"


def _render_objections() -> str:
    rows = [
        (title, *(_format_recorded_gas(f"{name}, {occasion}") for occasion in ("first", "next")))
        for title, name in {
            "`object`, by the node itself": "objection by the node",
            "`objectFor`, signed by a key": "objection of a key, brought",
            "`objectFor`, signed by a contract": "objection of a contract, brought",
        }.items()
    ]
    about = "Each objection has an explanation of 94 bytes.\n\n"
    return about + render_table(("", "first objection of a node", "later objection"), rows)


def _render_consumers() -> str:
    name_by_title = {
        **{
            f"draw by weight, {tries} tries".replace("1 tries", "1 try"): (
                f"draw, {tries} tries, {{}} nodes"
            )
            for tries in (1, 2, 3)
        },
        "escrow, settlement with two payments": "escrow, settle, {} nodes",
        "dispatcher, task started by proof": "dispatcher, start by proof, {} nodes",
        "ERC-8004, first feedback": "reputation, first feedback, {} nodes",
        "ERC-8004, next feedback": "reputation, next feedback, {} nodes",
        "EAS, first attestation": "attestation, first, {} nodes",
        "EAS, next attestation": "attestation, next, {} nodes",
    }
    rows = [
        (title, *(_format_recorded_gas(name.format(size)) for size in _MODULE_SIZES))
        for title, name in name_by_title.items()
    ]
    for title, name in {
        "draw, request": "draw, request",
        "escrow, creation of a job": "escrow, create",
        "dispatcher, task started by the hot set": "dispatcher, start by the hot set",
    }.items():
        rows.append((title, *2 * [_format_recorded_gas(name)]))
    return render_table(_build_column_titles(_MODULE_SIZES), sorted(rows))


def _render_other_oracles() -> str:
    gas_texts = {
        "push": _format_recorded_gas("push, 1000 nodes, quorum 3"),
        "read_small": _format_recorded_gas("read by proof, 1000 nodes, with its input"),
        "read_large": _format_recorded_gas("read by proof, 1000000 nodes, with its input"),
    }
    rows = [tuple(cell.format(**gas_texts) for cell in row) for row in _PEERS]
    return render_table(("", "cost of a round", "cost of using a value", "source"), rows)


def _render_daily_costs(gwei: float) -> str:
    gas_by_title: Mapping[str, Callable[[int], float]] = {
        "a round an hour": lambda _: (
            _HOURS_PER_DAY * _get_recorded_gas("push, 1000 nodes, quorum 3")
        ),
        "a round a minute": lambda _: (
            _MINUTES_PER_DAY * _get_recorded_gas("push, 1000 nodes, quorum 3")
        ),
        "every lane into the hot set, once an hour": lambda size: (
            _HOURS_PER_DAY * _compute_hot_set_gas(size)
        ),
        "1,000 reads by proof": lambda size: (
            1_000 * _get_recorded_gas(f"read by proof, {size} nodes, with its input")
        ),
        "one kickout, accused and executed": lambda size: (
            _interpolate_gas("accuse", size) + _interpolate_gas("executeKick", size)
        ),
    }
    usd_per_gas = _USD_PER_GAS_AT_ONE_GWEI * gwei
    rows = [
        (name, *(_format_dollars(usd_per_gas * compute_gas(size)) for size in _DAY_SIZES))
        for name, compute_gas in gas_by_title.items()
    ]
    columns = ("USD", *(f"10^{round(log2(size) / log2(10))} nodes" for size in _DAY_SIZES))
    return render_table(columns, rows)


# --- figures ---


@cache
def _read_recorded_gas() -> dict[str, int]:
    gas_by_name: dict[str, int] = {}
    for path in _RECORDED_FILES:
        gas_by_name |= json.loads((ROOT / path).read_text("utf-8"))
    return gas_by_name


def _get_recorded_gas(name: str) -> int:
    return _read_recorded_gas()[name]


def _format_recorded_gas(name: str) -> str:
    return _format_gas(_get_recorded_gas(name))


def _format_gas(gas: int) -> str:
    return f"{gas:,}"


def _format_extra_push_gas(case: str) -> str:
    """Describe how much more gas this push needs than a push for 20 nodes."""
    return _format_gas(
        _get_recorded_gas(f"push, quorum 3, {case}")
        - _get_recorded_gas("push, 20 nodes, quorum 3")
    )


def _compute_hot_set_gas(size: int) -> float:
    """Compute the gas of writing every word of the hot set once."""
    if size < _MODULE_SIZES[0]:
        return ceil(size / 64) * _get_recorded_gas("words, 1000 nodes, run of 4")
    low_gas, high_gas = (
        _get_recorded_gas(f"words, {count} nodes, run of 64, each node") for count in _MODULE_SIZES
    )
    return size * (low_gas + (high_gas - low_gas) * log2(size / 1_000) / log2(1_000))


def _interpolate_gas(call: str, size: int) -> float:
    """Interpolate the gas of a call with a Merkle proof for `size` nodes.

    The gas grows with the logarithm of the number of nodes.
    """
    low_gas, high_gas = (_get_recorded_gas(f"{call}, {count} nodes") for count in _MODULE_SIZES)
    return low_gas + (high_gas - low_gas) * log2(size / 1_000) / log2(1_000)


def _format_dollars(amount: float) -> str:
    if amount < 1:
        return f"{amount:#.2g}"
    return f"{amount:.2f}" if amount < _WHOLE_DOLLARS_FROM else f"{amount:,.0f}"
