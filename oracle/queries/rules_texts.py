"""Finds rules texts on this host by the hash that the contract stores.

A text is only accepted if it has this hash, so anybody may supply the file.
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from oracle.chain.proofs.keccak import keccak
from oracle.domain.ids import Hash
from oracle.domain.reports.rules_changes import list_pending_changes
from oracle.domain.scoring.rules import Rules
from oracle.queries.text.text_tables import format_block_time
from oracle.store.database import UnitOfWork
from oracle.systems.overrides import format_rule_values

# Maximum size of an announced text. The canonical JSON of the rules (the rules id) has about 3 KB,
# and the reason for a change has a few sentences.
_MAX_BYTES = 64 * 1024


def hash_rules_text(text: str) -> Hash:
    """Return the SHA-256 of a rules id, which the contract stores as `rulesHash`."""
    return Hash("0x" + sha256(text.encode()).hexdigest())


def hash_reason(text: str) -> Hash:
    """Return the keccak256 of a reason, used as the salt of the operation that announces rules."""
    return Hash("0x" + keccak(text.encode()).hex())


def find_rules_text(rules_hash: Hash, configured_text: str, folder: Path | None) -> str | None:
    """Find the rules id with this hash in the configuration or in a file.

    The result is None if this host does not have the rules id.
    """
    if hash_rules_text(configured_text) == rules_hash:
        return configured_text
    rules_text = _read_rules_file(folder, f"{rules_hash}.json")
    return (
        rules_text
        if rules_text is not None and hash_rules_text(rules_text) == rules_hash
        else None
    )


def find_reason(salt: Hash, folder: Path | None) -> str | None:
    """Read the reason with this hash from its file, or return None if there is no file."""
    reason_text = _read_rules_file(folder, f"{salt}.txt")
    return reason_text if reason_text is not None and hash_reason(reason_text) == salt else None


def describe_missing_rules(
    uow: UnitOfWork, configured_text: str, folder: Path | None
) -> str | None:
    """Return which announced rules this host lacks, or None if it has all of them.

    A reporter without the rules signs nothing once they are in force.
    """
    pending_changes = list_pending_changes(uow.rounds.get_contract_settings().rules_changes)
    missing_changes = [
        f"{change.rules_hash}, not before {format_block_time(change.scheduled.ready_at)}"
        for change in pending_changes
        if change.scheduled is not None
        and find_rules_text(change.rules_hash, configured_text, folder) is None
    ]
    return (
        None
        if not missing_changes
        else f"rules were announced but not published: {'; '.join(missing_changes)}"
    )


def _read_rules_file(folder: Path | None, name: str) -> str | None:
    if folder is None:
        return None
    try:
        content = (folder / name).read_bytes()
        return content.decode() if len(content) <= _MAX_BYTES else None
    except (OSError, UnicodeDecodeError):
        return None


def parse_rules_text(text: str) -> Rules:
    """Parse the scoring rules from a rules id.

    Raises:
        ValueError: the text is not a rules id, or its rules belong to another version of the
            program.
    """
    rules_document = json.loads(text)
    if not isinstance(rules_document, dict) or "rules" not in rules_document:
        raise ValueError("expected a JSON object with rules")
    return Rules.from_json(json.dumps(rules_document["rules"]))


def flatten_rules_text(text: str) -> dict[str, str]:
    """Return every value of a rules id as text, by name."""
    rules_document: dict[str, Any] = json.loads(text)
    rules = rules_document.pop("rules")
    settings = {name: str(value) for name, value in rules_document.items()}
    return (
        settings
        | {"name": rules["name"], "version": str(rules["version"])}
        | format_rule_values(rules)
    )
