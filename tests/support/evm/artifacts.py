"""The compiled contracts under abi/, as tests deploy them."""

import json
from functools import cache
from pathlib import Path
from typing import Any

ABI = Path(__file__).resolve().parents[3] / "abi"


@cache
def artifact(name: str) -> dict[str, Any]:
    """By name; those in a folder by `folder/name`, as in `testing/StubbornNode`."""
    return dict[str, Any](json.loads((ABI / f"{name}.json").read_text("utf-8")))
