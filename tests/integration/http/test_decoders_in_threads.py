"""Several threads decode responses; their decoders are created by one at a time."""

import subprocess
import sys

# Without the lock this ends with a segmentation fault within the first rounds.
_SCRIPT = """
import sys, threading
import msgspec
from oracle.rpc.replies import JsonRpcResponse, get_body_decoder

sys.setswitchinterval(1e-6)
BODY = b'[{"id": 1, "result": [{"a": "x", "b": ["y"], "c": 1}]}]'

def race():
    class Row(msgspec.Struct, gc=False):
        a: str
        b: list[str]
        c: int = 0

    start = threading.Barrier(4)

    def decode():
        start.wait()
        (reply,) = get_body_decoder(list[JsonRpcResponse[list[Row]]]).decode(BODY)
        assert reply.result[0].c == 1

    threads = [threading.Thread(target=decode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

for _ in range(300):
    race()
"""


def test_threads_can_create_decoders_concurrently():
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
