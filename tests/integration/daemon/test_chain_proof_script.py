"""The page's proofs of logs: valid blocks are proven, and a lying endpoint proves nothing."""

import copy
import json
import random
from collections.abc import Sequence
from typing import Any

from devnet.fakechain.block_json import Block, FakeLog, Tx
from devnet.fakechain.tree import BlockTree
from tests.integration.daemon.test_bundle_checks import change_digit
from tests.support.page_scripts import needs_node, run_page_script

pytestmark = needs_node
# `endpoint` answers each method and block from a table.
SCRIPT = """async ({ blocks, cases }) => {
  const mismatches = blocks.map(([header, receipts]) => {
    try {
      return findReceiptsMismatch(header, receipts);
    } catch (error) {
      return error.message;
    }
  });
  const results = [];
  for (const { bundle, answers } of cases) {
    const endpoint = async (method, number) => answers[method + number] ?? null;
    results.push(await checkLogs(bundle, endpoint, () => {}));
  }
  return { mismatches, results };
}"""
Json = dict[str, Any]


def run_script(blocks: Sequence[tuple[Json, list[Json]]] = (), cases: Sequence[Json] = ()) -> Json:
    answer: Json = run_page_script(SCRIPT, {"blocks": blocks, "cases": cases})
    return answer


def mine_block(transaction_count: int) -> Block:
    rng = random.Random(transaction_count)  # noqa: S311 - the same block each time
    draw = lambda size: "0x" + rng.randbytes(size).hex()  # noqa: E731
    transactions = [
        Tx(
            draw(20),
            draw(20),
            draw(rng.choice((0, 1, 80))),
            0,
            tuple(
                FakeLog(
                    draw(20),
                    tuple(draw(32) for _ in range(rng.randint(0, 4))),
                    draw(rng.choice((0, 1, 31, 64, 300))),
                )
                for _ in range(rng.randint(0, 3))
            ),
        )
        for _ in range(transaction_count)
    ]
    tree = BlockTree()
    tree.mine_empty_blocks(1)
    return tree.mine(transactions)


def to_json(block: Block) -> tuple[Json, list[Json]]:
    return json.loads(json.dumps([block.header, block.receipts]))  # type: ignore[no-any-return]


def test_blocks_with_any_number_of_transactions_are_proven():
    blocks = [to_json(mine_block(count)) for count in (0, 1, 2, 17, 129)]
    assert run_script(blocks)["mismatches"] == [None] * len(blocks)


def test_changed_header_or_receipt_field_is_detected():
    header, receipts = to_json(mine_block(17))
    changed = [
        ({**header, name: change_hex(value)}, receipts)
        for name, value in header.items()
        if name in HASHED_FIELDS
    ]
    with_logs = next(index for index, receipt in enumerate(receipts) if receipt["logs"])
    for name in ("cumulativeGasUsed", "logsBloom", "status", "type"):
        other = copy.deepcopy(receipts)
        other[with_logs][name] = "0x1" if name == "type" else change_hex(other[with_logs][name])
        changed.append((header, other))
    for name in ("address", "data"):
        other = copy.deepcopy(receipts)
        log = other[with_logs]["logs"][0]
        log[name] = change_hex(log[name]) if len(log[name]) > 2 else "0x01"
        changed.append((header, other))
    changed.append((header, receipts[:-1]))
    assert len(changed) > 20
    assert None not in run_script(changed)["mismatches"]


HASHED_FIELDS = {
    "hash", "parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot",
    "logsBloom", "difficulty", "number", "gasLimit", "gasUsed", "timestamp", "extraData",
    "mixHash", "nonce", "baseFeePerGas",
}  # fmt: skip


def change_hex(value: str) -> str:
    return change_digit(value) if len(value) > 2 else "0x01"


def build_case(block: Block) -> Json:
    """Return a bundle with the logs of a block, and the responses of an honest endpoint."""
    header, receipts = to_json(block)
    logs = [log for receipt in receipts for log in receipt["logs"]]
    bundle = {
        "events": [{"block": block.number, "time": int(header["timestamp"], 16)}],
        "logs": [
            {
                "block": block.number,
                "block_hash": log["blockHash"],
                "tx": int(log["transactionIndex"], 16),
                "log": int(log["logIndex"], 16),
                "transaction": log["transactionHash"],
                "address": log["address"],
                "topics": log["topics"],
                "data": log["data"],
            }
            for log in logs
        ],
    }
    answers = {
        f"eth_getBlockByNumber{hex(block.number)}": header,
        f"eth_getBlockReceipts{hex(block.number)}": receipts,
    }
    return {"bundle": bundle, "answers": answers}


def test_lying_endpoint_cannot_prove_a_log():
    honest = build_case(mine_block(17))
    forged = copy.deepcopy(honest)
    receipts = next(value for name, value in forged["answers"].items() if "Receipts" in name)
    log = next(log for receipt in receipts for log in receipt["logs"] if log["topics"])
    log["topics"][0] = change_digit(log["topics"][0])
    for bundle_log in forged["bundle"]["logs"]:
        if bundle_log["log"] == int(log["logIndex"], 16):
            bundle_log["topics"] = log["topics"]
    without_receipts = copy.deepcopy(honest)
    without_receipts["answers"] = {
        name: value for name, value in honest["answers"].items() if "Receipts" not in name
    }
    results = run_script(cases=[honest, forged, without_receipts])["results"]
    assert [result["is_true"] for result in results] == [True, None, None]
    assert "receipts of block" in results[1]["text"]


def test_receipts_do_not_prove_a_log_of_another_block_or_index():
    """The bundle and the endpoint agree, but the header and receipts have another hash."""
    block = mine_block(17)
    other_block = build_case(block)
    other_index = build_case(block)
    for log in other_block["bundle"]["logs"]:
        log["block"] += 1
    other_block["bundle"]["events"][0]["block"] += 1
    other_block["answers"] = {
        name.replace(hex(block.number), hex(block.number + 1)): value
        for name, value in other_block["answers"].items()
    }
    for log in other_index["bundle"]["logs"]:
        log["log"] += 1
    for name, receipts in other_index["answers"].items():
        for receipt in receipts if "Receipts" in name else ():
            for log in receipt["logs"]:
                log["logIndex"] = hex(int(log["logIndex"], 16) + 1)
    results = run_script(cases=[other_block, other_index])["results"]
    assert [result["is_true"] for result in results] == [None, None]
    assert "another block" in results[0]["text"]
    assert "in order" in results[1]["text"]


def test_bundle_without_logs_is_left_unchecked():
    case = build_case(mine_block(17))
    case["bundle"] |= {"logs": [], "events": [], "proof": SCORED_PROOF}
    (result,) = run_script(cases=[case])["results"]
    assert (result["is_true"], result["is_optional"]) == (None, False)


# The leaf of a node with one score.
SCORED_PROOF: Json = {
    "is_absent": False,
    "leaf": {"encoded": f"0x{0:064x}{0:064x}{1 << 56:064x}{0:064x}"},
}
