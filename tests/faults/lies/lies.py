"""The lies: what is said of a block in place of what happened in it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from devnet.fakechain.accounts import account
from devnet.fakechain.block_json import Block, Json, Said, Tx
from devnet.fakechain.faults.forging import Lie, Told, true_of
from tests.faults.lies.networks import OTHER

STRANGER = account(0xD0)
_SECONDS, _WEI = 5, 10**9
_LAST_OF_A_WORD = 2 + 63


def _in_last(change: Callable[[Tx], Tx], which: Callable[[Tx], bool]) -> Callable[[Block], Told]:
    """Change the last transaction of a block that is such a one."""

    def tell(block: Block) -> Told:
        txs = list(block.txs)
        for place in range(len(txs) - 1, -1, -1):
            if which(txs[place]):
                txs[place] = change(txs[place])
                break
        return Told(block.time, tuple(txs))

    return tell


def _speaks(tx: Tx) -> bool:
    """Tell whether its last log is our contracts', and of a kind that is known."""
    return bool(tx.said) and tx.said[-1].address != OTHER and bool(tx.said[-1].data[2:])


def _is_silent_call(tx: Tx) -> bool:
    return not tx.logs and len(tx.input) >= len("0x12345678")


def _is_call(tx: Tx) -> bool:
    return len(tx.input) >= len("0x12345678")


def _emptied(block: Block) -> Told:
    """Every second block has nothing to say."""
    if block.number % 2:
        return true_of(block)
    return Told(block.time, tuple(replace(tx, logs=()) for tx in block.txs))


def _other_word(said: Said) -> Said:
    """Change the last digit of the first word: the task, or the node."""
    place, written = _LAST_OF_A_WORD, said.data
    other = "1" if written[place] != "1" else "2"
    return replace(said, data=written[:place] + other + written[place + 1 :])


def _with_logs(change: Callable[[Sequence[Said]], Sequence[Said]]) -> Callable[[Tx], Tx]:
    return lambda tx: replace(tx, logs=tuple(change(tx.logs)))


def _marked(**fields: object) -> Callable[[Json], Json]:
    return lambda log: {**log, **fields}


def _one_further(log: Json) -> Json:
    return {**log, "transactionIndex": hex(int(log["transactionIndex"], 16) + 1)}


LIES: Mapping[str, Lie] = {
    lie.name: lie
    for lie in (
        Lie("honest"),
        Lie("omitted", _in_last(_with_logs(lambda logs: logs[:-1]), _speaks)),
        Lie("emptied", _emptied),
        Lie(
            "invented",
            _in_last(_with_logs(lambda logs: [*logs, _other_word(logs[-1])]), _speaks),
        ),
        Lie(
            "data", _in_last(_with_logs(lambda logs: [*logs[:-1], _other_word(logs[-1])]), _speaks)
        ),
        Lie("value", _in_last(lambda tx: replace(tx, value=tx.value + _WEI), _is_call)),
        Lie(
            "status",
            _in_last(lambda tx: replace(tx, succeeded=not tx.succeeded), _is_silent_call),
        ),
        Lie("from", _in_last(lambda tx: replace(tx, sender=STRANGER), _is_call)),
        Lie("time", lambda block: Told(block.time + _SECONDS, block.txs)),
        Lie(
            "index",
            _in_last(
                _with_logs(lambda logs: logs[::-1]), lambda tx: _speaks(tx) and len(tx.logs) > 1
            ),
        ),
        Lie("transaction index", mark=_one_further),
        Lie("transaction hash", rename=lambda name: "0xdd" + name[4:]),
        Lie("removed", mark=_marked(removed=True)),
    )
}
