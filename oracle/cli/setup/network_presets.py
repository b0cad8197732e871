"""Presets for `init --network`: the shipped configurations of public networks."""

import json
import re
from collections.abc import Sequence

from oracle.errors import InputError
from oracle.resources import find_shipped_path

_FILES = {"crynux": "config/crynux.toml"}
_DATABASE = re.compile(r'(?m)^url = "sqlite:///.*"$')
_ENDPOINTS = re.compile(r"(?m)^endpoints = \[.*\]$")


def render_preset(network: str, endpoints: Sequence[str], database: str) -> str:
    """Return the configuration of a network, by default with its public endpoints.

    Raises:
        InputError: there is no preset of this name.
    """
    if network not in _FILES:
        raise InputError(
            f"--network {network}: no such preset; expected one of: {', '.join(_FILES)}"
        )
    text = find_shipped_path(_FILES[network]).read_text("utf-8")
    text = _DATABASE.sub(lambda _: f"url = {json.dumps(database)}", text, count=1)
    if endpoints:
        urls = ", ".join(map(json.dumps, endpoints))
        text = _ENDPOINTS.sub(lambda _: f"endpoints = [{urls}]", text, count=1)
    return text


def extract_preset_notes(text: str) -> str:
    """Return the comment at the beginning of a preset."""
    comment = text.partition("\n\n")[0]
    return "\n".join(line.removeprefix("# ") for line in comment.splitlines())
