"""web3 encodes and decodes; it sends no request, and does not change the process."""

import subprocess
import sys

import pytest

from oracle.rpc.offline_web3 import build_offline_web3

IMPORTS = """
import sys
import oracle.cli.inspect.status_commands
from oracle.bindings.codec import encode_call, decode_result
decode_result("roots/QoSRoots", "pauseSeconds", "0x" + "00" * 32)
encode_call("roots/QoSRoots", "head")
print("web3" in sys.modules)
limit = sys.getrecursionlimit()
import oracle.rpc.offline_web3
print(limit == sys.getrecursionlimit())
"""


def test_offline_web3_sends_no_request():
    with pytest.raises(NotImplementedError):
        build_offline_web3().eth.send_raw_transaction(b"\x02")


@pytest.mark.slow
def test_contract_view_imports_no_web3():
    command = [sys.executable, "-c", IMPORTS]
    stdout = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert stdout.split() == ["False", "True"]
