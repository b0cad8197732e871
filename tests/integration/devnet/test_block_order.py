"""The order of transactions in a block of the local chain."""

from devnet.anvil import LocalChain, run_anvil
from devnet.demo.show import START_TIME
from devnet.demo.stranger import STRANGER_FEES


def test_transaction_of_a_stranger_is_mined_before_queued_transactions() -> None:
    with run_anvil(port=0, accounts=3, start_time=START_TIME) as url:
        chain = LocalChain(url)
        accounts = chain.make_request("eth_accounts")
        transfer = {"to": accounts[0], "value": "0x1"}
        for sender in accounts[:2]:
            chain.make_request("eth_sendTransaction", {**transfer, "from": sender})
        stranger_call = {**transfer, **STRANGER_FEES, "from": accounts[2]}

        chain.mine(START_TIME + 12, [stranger_call])

        block = chain.make_request("eth_getBlockByNumber", "latest", True)
        senders = [transaction["from"] for transaction in block["transactions"]]
        assert senders == [accounts[2], accounts[0], accounts[1]]
