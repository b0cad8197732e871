"""Command-line values: a required address is never empty, an optional one may be."""

from io import StringIO
from pathlib import Path

import pytest

from oracle.cli.main import run
from oracle.cli.setup.contract_values import (
    parse_addresses,
    parse_named_address,
    parse_optional_address,
    parse_required_address,
)
from oracle.domain.ids import ZERO_ADDRESS
from oracle.errors import InputError

FIRST = "0x" + "1" * 40
SECOND = "0x" + "2" * 40
NO_CONFIG = ["--config", "no-such-file.toml"]


def test_empty_optional_address_is_parsed_as_zero_address():
    assert parse_optional_address("") == ZERO_ADDRESS


def test_empty_required_address_is_rejected():
    assert parse_required_address(FIRST) == FIRST
    with pytest.raises(InputError, match="the address is empty; expected 0x"):
        parse_required_address("")


@pytest.mark.parametrize("text", [f"{FIRST},,{SECOND}", f"{FIRST},", f"{FIRST}, ", ",", ""])
def test_list_with_empty_address_is_rejected(text: str):
    with pytest.raises(
        InputError, match="an address is empty; expected comma-separated addresses"
    ):
        parse_addresses(text)


def test_list_of_addresses_ignores_spaces():
    assert parse_addresses(f"{FIRST}, {SECOND}") == [FIRST, SECOND]


def test_contract_name_without_address_is_rejected():
    assert parse_named_address(f"TaskNetwork={FIRST}") == ("TaskNetwork", FIRST)
    with pytest.raises(InputError, match="TaskNetwork=: must be NAME"):
        parse_named_address("TaskNetwork=")


@pytest.mark.parametrize(
    "action",
    [
        ["drop-signer", ""],
        ["readmit", ""],
        ["veto", "", "why"],
        ["set-signers", f"{FIRST},,{SECOND}", "2"],
    ],
)
def test_calldata_with_empty_address_causes_a_one_line_error(action: list[str], capsys):
    assert run(["contract", "calldata", *action, *NO_CONFIG]) == 2
    stderr = capsys.readouterr().err
    assert "address is empty" in stderr
    assert stderr.count("\n") == 1


def test_blank_contract_address_causes_a_one_line_error(monkeypatch, capsys, tmp_path: Path):
    monkeypatch.setattr("sys.stdin", StringIO("  \n"))
    options = ["--endpoint", "http://127.0.0.1:1", "--profile", "reference"]
    assert run(["init", *options, "--config", str(tmp_path / "config.toml")]) == 2
    assert (
        capsys.readouterr()
        .err.splitlines()[-1]
        .endswith("the address is empty; expected 0x and 40 hex digits")
    )
