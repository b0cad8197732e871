"""The lies: forged contents of a block."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from devnet.fakechain.block_json import Block, FakeLog, Json, Tx
from devnet.fakechain.faults.forging import BlockContent, ForgeryPlan, get_true_content
from devnet.fakechain.mining import create_account
from tests.faults.lies.networks import OTHER

STRANGER = create_account(0xD0)
_SECONDS = 5
_WEI = 10**9
_LAST_OF_A_WORD = 2 + 63


def _change_last_transaction(
    change: Callable[[Tx], Tx], which: Callable[[Tx], bool]
) -> Callable[[Block], BlockContent]:
    """Return a forgery that changes the last transaction of a block for which `which` is true."""

    def forge(block: Block) -> BlockContent:
        txs = list(block.txs)
        for place in range(len(txs) - 1, -1, -1):
            if which(txs[place]):
                txs[place] = change(txs[place])
                break
        return BlockContent(block.time, tuple(txs))

    return forge


def _emits_known_log(tx: Tx) -> bool:
    """Return whether the transaction's last log is of our contracts and of a known kind."""
    return (
        bool(tx.emitted_logs)
        and tx.emitted_logs[-1].address != OTHER
        and bool(tx.emitted_logs[-1].data[2:])
    )


def _is_silent_call(tx: Tx) -> bool:
    return not tx.logs and len(tx.input) >= len("0x12345678")


def _is_call(tx: Tx) -> bool:
    return len(tx.input) >= len("0x12345678")


def _empty_every_second_block(block: Block) -> BlockContent:
    """Return the block's content without logs, for every second block."""
    if block.number % 2:
        return get_true_content(block)
    return BlockContent(block.time, tuple(replace(tx, logs=()) for tx in block.txs))


def _change_first_word(log: FakeLog) -> FakeLog:
    """Change the last digit of the first word, which is the task or the node."""
    place, written = _LAST_OF_A_WORD, log.data
    new_digit = "1" if written[place] != "1" else "2"
    return replace(log, data=written[:place] + new_digit + written[place + 1 :])


def _change_logs(change: Callable[[Sequence[FakeLog]], Sequence[FakeLog]]) -> Callable[[Tx], Tx]:
    return lambda tx: replace(tx, logs=tuple(change(tx.logs)))


def _set_log_fields(**fields: object) -> Callable[[Json], Json]:
    return lambda log: {**log, **fields}


def _increment_transaction_index(log: Json) -> Json:
    return {**log, "transactionIndex": hex(int(log["transactionIndex"], 16) + 1)}


LIES: Mapping[str, ForgeryPlan] = {
    lie.name: lie
    for lie in (
        ForgeryPlan("honest"),
        ForgeryPlan(
            "omitted",
            _change_last_transaction(_change_logs(lambda logs: logs[:-1]), _emits_known_log),
        ),
        ForgeryPlan("emptied", _empty_every_second_block),
        ForgeryPlan(
            "invented",
            _change_last_transaction(
                _change_logs(lambda logs: [*logs, _change_first_word(logs[-1])]), _emits_known_log
            ),
        ),
        ForgeryPlan(
            "data",
            _change_last_transaction(
                _change_logs(lambda logs: [*logs[:-1], _change_first_word(logs[-1])]),
                _emits_known_log,
            ),
        ),
        ForgeryPlan(
            "value",
            _change_last_transaction(lambda tx: replace(tx, value=tx.value + _WEI), _is_call),
        ),
        ForgeryPlan(
            "status",
            _change_last_transaction(
                lambda tx: replace(tx, succeeded=not tx.succeeded), _is_silent_call
            ),
        ),
        ForgeryPlan(
            "from", _change_last_transaction(lambda tx: replace(tx, sender=STRANGER), _is_call)
        ),
        ForgeryPlan("time", lambda block: BlockContent(block.time + _SECONDS, block.txs)),
        ForgeryPlan(
            "index",
            _change_last_transaction(
                _change_logs(lambda logs: logs[::-1]),
                lambda tx: _emits_known_log(tx) and len(tx.logs) > 1,
            ),
        ),
        ForgeryPlan("transaction index", change_log=_increment_transaction_index),
        ForgeryPlan("transaction hash", change_tx_hash=lambda name: "0xdd" + name[4:]),
        ForgeryPlan("removed", change_log=_set_log_fields(removed=True)),
    )
}
