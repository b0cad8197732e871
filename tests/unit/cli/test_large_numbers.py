"""Numbers that no database can store are rejected before a command opens the database."""

import pytest

from oracle.cli.main import run
from oracle.cli.options import MAX_STORED_NUMBER

NODE = "0x" + 40 * "1"


@pytest.mark.parametrize(
    "command",
    [
        "report show --period",
        "report release",
        "report verify",
        "report signers --round",
        "report diff --with http://127.0.0.1:1",
        f"explain {NODE} --round",
        f"proof {NODE} --round",
        "draws --last",
        "outbox list --limit",
        "objection list --limit",
        "halt list --limit",
    ],
)
def test_number_above_64_bits_is_rejected(command: str, capsys: pytest.CaptureFixture[str]):
    assert run([*command.split(), str(MAX_STORED_NUMBER + 1)]) == 2
    assert f"less than or equal to {MAX_STORED_NUMBER}" in capsys.readouterr().err
