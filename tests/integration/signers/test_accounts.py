"""Signing libraries are imported late, and leave the interpreter unchanged."""

import subprocess
import sys

import pytest

_LATE = """
import sys
import oracle.daemon.senders
from oracle.signing.keystore import import_eth_account
before = "eth_account" in sys.modules, sys.getrecursionlimit()
import_eth_account()
after = "eth_account" in sys.modules, sys.getrecursionlimit()
print(before[0], after[0], before[1] == after[1] < 10_000)
"""


@pytest.mark.slow
def test_command_without_key_does_not_import_signing():
    done = subprocess.run(
        [sys.executable, "-c", _LATE], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["False", "True", "True"]
