"""The compiled contracts in abi/, as tests deploy them."""

import json
from functools import cache
from pathlib import Path
from typing import Any

ABI = Path(__file__).resolve().parents[3] / "abi"


@cache
def load_artifact(name: str) -> dict[str, Any]:
    """Return an artifact by name.

    A name in a folder is `folder/name`, as `testing/StubbornNode`.
    """
    return dict[str, Any](json.loads((ABI / f"{name}.json").read_text("utf-8")))
