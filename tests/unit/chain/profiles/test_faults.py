"""A mistake in a profile is reported in one line with the file, the key and the remedy."""

from pathlib import Path

import pytest

from oracle.chain.profiles.profile import Token
from oracle.chain.profiles.profile_loader import list_shipped_profiles, load_profile
from oracle.errors import InputError
from tests.unit.chain.profiles.profile_files import open_profile_reader, write_profile

GOOD = """
name = "ours"
about = "a network"

[options]
blame = true

[enums.status]
words = ["queued", "started"]

[contracts.Network]
abi = [
    "event Started(bytes32 task, address node)",
    "event Ended(bytes32 task, uint8 status, uint8 reason)",
    "function leave(address who)",
]

[contracts.Network.events.Started]
says = "task_started"
task = "task"
node = "node"

[contracts.Network.events.Ended]
when = { reason = [0, 1] }
says = "task_timed_out"
task = "task"
last_status = { argument = "status", enum = "status" }

[contracts.Network.calls.leave]
says = "node_quit"
node = "who"
"""

STARTED = "contracts.Network.events.Started"
ENDED = "contracts.Network.events.Ended"

FAULTS = [
    # (original text, replacement, key, error)
    ("[contracts.Network.events.Started]", "[contracts.Network.events.Startd]",
     "contracts.Network.events.Startd", "the ABI has no event Startd; did you mean Started"),
    ("[contracts.Network.calls.leave]", "[contracts.Network.calls.quit]",
     "contracts.Network.calls.quit", "the ABI has no function quit"),
    ('node = "node"', 'node = "nod"', f"{STARTED}.node",
     r"has no argument nod; did you mean node\? \(available: task, node\)"),
    ('node = "node"', 'node = "task"', f"{STARTED}.node", "expected an address, got bytes32"),
    ('node = "node"', 'node = "@sender"', f"{STARTED}.node", "@sender is only available"),
    ('node = "who"', 'node = "@from"', "contracts.Network.calls.leave.node", "@sender, @value"),
    ('node = "node"', 'nod = "node"', f"{STARTED}.nod", "no such field; did you mean node"),
    ('node = "node"', "", STARTED, "task_started requires the field node"),
    ('node = "node"', "node = 5", f"{STARTED}.node", "expected the name of an argument"),
    ('node = "node"', "node = []", f"{STARTED}.node", "expected the name of an argument"),
    ('node = "node"', 'node = ["node"]', f"{STARTED}.node", "got a list of address"),
    ('node = "node"', 'node = { argument = "node", zero_is_absent = true }', f"{STARTED}.node",
     "only valid for optional fields"),
    ('node = "node"', 'node = { argument = "node", enum = "status" }', f"{STARTED}.node",
     "an enum is only valid for kind, reason, last_status"),
    ('node = "node"', 'node = { constant = "me" }', f"{STARTED}.node", "0x and 40 hex digits"),
    ('node = "node"', 'node = { argument = "node", of = 1 }', f"{STARTED}.node.of", "not a key"),
    ('node = "node"', "node = { enum = 'status' }", f"{STARTED}.node", "`argument` or `constant`"),
    ('node = "node"', 'node = "$blam"', f"{STARTED}.node", "constant blam; did you mean blame"),
    ('node = "node"', 'node = "node"\nround = "task"', f"{STARTED}.round", "an unsigned number"),
    ('says = "task_started"', 'says = "task_begun"', f"{STARTED}.says", "is not a domain event"),
    ('says = "task_started"', "", f"{STARTED}.says", "is missing"),
    ("when = { reason = [0, 1] }", "when = { raison = 1 }", f"{ENDED}.when.raison",
     "did you mean reason"),
    ("when = { reason = [0, 1] }", 'when = { reason = "x" }', f"{ENDED}.when.reason",
     "uint8 never equals 'x'"),
    ("when = { reason = [0, 1] }", "when = { reason = 256 }", f"{ENDED}.when.reason",
     "uint8 never equals 256"),
    ('{ argument = "status", enum = "status" }', '"status"', f"{ENDED}.last_status",
     "an enum is required"),
    ('{ argument = "status", enum = "status" }', '{ argument = "status", enum = "state" }',
     f"{ENDED}.last_status", "there is no enum state; did you mean status"),
    ('{ argument = "status", enum = "status" }', '{ argument = "task", enum = "status" }',
     f"{ENDED}.last_status", "an unsigned number or a string, got bytes32"),
    ('words = ["queued", "started"]', 'words = { 0 = "queued", 3 = "started" }', "enums.status",
     "has no entry for 1, 2, and no `otherwise`"),
    ('words = ["queued", "started"]', 'words = ["queued", "begun"]', f"{ENDED}.last_status",
     "'begun' is not a valid last_status"),
    ('words = ["queued", "started"]', 'words = { a = "queued" }', f"{ENDED}.last_status",
     "enums.status: its keys do not match the type uint8"),
    ('words = ["queued", "started"]', 'words = ["queued"]\nfrom_block = 5', "enums.status",
     "valid from block 0"),
    ('words = ["queued", "started"]', "words = 5", "enums.status.words", "a list of words"),
    ('"event Started(bytes32 task, address node)",', '"event Started(bytes33 task)",',
     "contracts.Network.abi", "'bytes33' is not a Solidity type"),
    ('"event Started(bytes32 task, address node)",', '"Started(bytes32 task)",',
     "contracts.Network.abi", "must begin with"),
    ('"event Started(bytes32 task, address node)",', '"missing.json",', "contracts.Network.abi",
     "cannot be read"),
    ('"event Started(bytes32 task, address node)",',
     '"event Started(bytes32 task, address node)", "event Started(bytes32 a, address node)",',
     f"{STARTED}.task", "has no argument task"),
    ("[contracts.Network]", "[contracts.Network]\nadress = 1", "contracts.Network.adress",
     "is not a key of a profile; did you mean address"),
    ("[contracts.Network]", '[contracts.Network]\naddress = "0x12"', "contracts.Network.address",
     "0x and 40 hex digits"),
    ("[contracts.Network]", "[contracts.Network]\nstart_block = -1",
     "contracts.Network.start_block", "a block number"),
    ('name = "ours"', "nam = 'ours'", "nam", "is not a key of a profile; did you mean name"),
    ("when = { reason = [0, 1] }", "when = { reason = [] }", f"{ENDED}.when.reason",
     "the list is empty"),
    ("when = { reason = [0, 1] }", 'when = { "$blame" = "yes" }', f"{ENDED}.when.$blame",
     "the option is True, which never equals 'yes'"),
    ('{ argument = "status", enum = "status" }', '{ argument = "status", enum = ["status"] }',
     f"{ENDED}.last_status", "enum must be the name of an enum"),
    ("[enums.status]", "[constants]\nsince = 2024-11-19\n[enums.status]", "constants.since",
     "must be numbers, strings, true or false"),
]  # fmt: skip


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(InputError) as refused:
        open_profile_reader(folder, text)
    return str(refused.value)


@pytest.mark.parametrize(("old", "new", "key", "words"), FAULTS)
def test_profile_fault_is_reported_with_file_and_key(
    tmp_path: Path, old: str, new: str, key: str, words: str
):
    assert GOOD.count(old) == 1
    complaint = refusal(tmp_path, GOOD.replace(old, new))
    fault_lines = [line for line in complaint.splitlines() if f"network.toml: {key}: " in line]

    assert len(fault_lines) == 1, complaint
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(fault_lines[0])


def test_valid_profile_is_loaded(tmp_path: Path):
    assert open_profile_reader(tmp_path, GOOD).profile.name == "ours"


def test_all_profile_faults_are_reported_together(tmp_path: Path):
    broken = GOOD.replace('node = "who"', 'node = "whom"').replace('"task_started"', '"started"')

    first, *fault_lines = refusal(tmp_path, broken).splitlines()

    assert first.endswith("network.toml: 2 faults")
    assert len(fault_lines) == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a = ", "invalid TOML"),
        (b"\xff", "the file is not UTF-8"),
        (b"", "contracts: is missing"),
    ],
)
def test_malformed_profile_file_is_rejected(tmp_path: Path, content: bytes, words: str):
    (tmp_path / "odd.toml").write_bytes(content)

    with pytest.raises(InputError, match=f"odd.toml: {words}"):
        load_profile(str(tmp_path / "odd.toml"))


def test_missing_profile_is_rejected(tmp_path: Path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        load_profile(str(tmp_path / "none.toml"))
    with pytest.raises(InputError, match=r"unknown profile 'crynux'; .* one of .*reference, or"):
        load_profile("crynux")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"blam": True}, "no such option; did you mean blame"),
        ({"blame": 1}, "to 1, but must be true or false"),
    ],
)
def test_invalid_profile_option_is_rejected(tmp_path: Path, options: dict[str, bool], words: str):
    with pytest.raises(InputError, match=words):
        load_profile(write_profile(tmp_path, GOOD), options)


def test_fault_in_event_disabled_by_option_is_reported(tmp_path: Path):
    ruled_out = """
[[contracts.Network.events.Ended]]
when = { "$blame" = false }
says = "task_aborted"
task = "tsk"
"""
    text = GOOD.replace("[contracts.Network.events.Ended]", "[[contracts.Network.events.Ended]]")

    assert f"{ENDED}[1].task: " in refusal(tmp_path, text + ruled_out)


def test_indistinguishable_events_are_rejected(tmp_path: Path):
    twins = [
        f"event Left(address {a}, address {b})"
        for a, b in (("indexed a", "b"), ("a", "indexed b"))
    ]
    text = f"""
[contracts.Network]
abi = {twins}
[contracts.Network.events.Left]
says = "node_quit"
node = "a"
"""
    assert "is in the ABI twice" in refusal(tmp_path, text)


# --- the identity of a profile ---


def test_profile_without_a_contract_that_emits_events_is_rejected(tmp_path: Path):
    calls_alone = """
[contracts.Register]
abi = ["function enter()"]
[contracts.Register.calls.enter]
says = "node_joined"
node = "@sender"
"""
    text = GOOD + calls_alone

    assert len(load_profile(write_profile(tmp_path, text)).contracts["Register"].calls) == 1
    assert "contracts: at least one needs an event" in refusal(tmp_path, calls_alone)
    nothing = GOOD + "[contracts.Register]\nabi = ['function enter()']"
    assert "contracts.Register: needs events or calls" in refusal(tmp_path, nothing)


def test_profile_identity_changes_when_its_meaning_changes(tmp_path: Path):
    identity = open_profile_reader(tmp_path, GOOD).profile.identity

    changed = [
        open_profile_reader(tmp_path, GOOD.replace("[0, 1]", "[0, 2]")),
        open_profile_reader(
            tmp_path, GOOD.replace('"queued", "started"', '"queued", "validated"')
        ),
        open_profile_reader(tmp_path, GOOD.replace("uint8 reason)", "uint16 reason)")),
    ]
    identities = {reader.profile.identity for reader in changed}
    identities.add(load_profile(write_profile(tmp_path, GOOD), {"blame": False}).identity)

    assert identity.startswith("ours ")
    assert len({*identities, identity}) == 5


def test_profile_identity_ignores_comments_and_addresses(tmp_path: Path):
    identity = open_profile_reader(tmp_path, GOOD).profile.identity
    places = f'address = "0x{"1" * 40}"\nstart_block = 9\n'
    placed = GOOD.replace("[contracts.Network]\n", "[contracts.Network]\n" + places)

    assert open_profile_reader(tmp_path, "# more\n" + placed).profile.identity == identity
    assert (
        open_profile_reader(tmp_path, GOOD.replace("a network", "yours")).profile.identity
        == identity
    )
    symbol_line = 'token = { symbol = "CNX", decimals = 6 }\n'
    assert open_profile_reader(tmp_path, symbol_line + GOOD).profile.token == Token("CNX", 6)
    assert open_profile_reader(tmp_path, symbol_line + GOOD).profile.identity == identity


def test_profile_that_holds_kickouts_has_a_different_identity(tmp_path: Path):
    reader = open_profile_reader(tmp_path, GOOD)
    held = open_profile_reader(tmp_path, 'kickouts = "held"\n' + GOOD)
    stated_default = open_profile_reader(tmp_path, 'kickouts = "automatic"\n' + GOOD)

    assert (reader.holds_kickouts, held.holds_kickouts) == (False, True)
    assert held.identity != reader.identity
    assert (stated_default.holds_kickouts, stated_default.identity) == (False, reader.identity)


def test_profile_option_can_hold_kickouts(tmp_path: Path):
    text = 'kickouts = "$kicks"\n' + GOOD.replace(
        "[options]\n", '[options]\nkicks = "automatic"\n'
    )
    path = write_profile(tmp_path, text)

    assert not load_profile(path).holds_kickouts
    assert load_profile(path, {"kicks": "held"}).holds_kickouts


@pytest.mark.parametrize("value", ['"off"', "true", '"$unknown"'])
def test_unknown_kickouts_setting_is_rejected(tmp_path: Path, value: str):
    with pytest.raises(InputError, match="kickouts: "):
        open_profile_reader(tmp_path, f"kickouts = {value}\n" + GOOD)


@pytest.mark.parametrize("name", list_shipped_profiles())
def test_every_shipped_profile_is_loaded_and_has_description(name: str):
    profile = load_profile(name)

    assert profile.name == name
    assert profile.event_types
