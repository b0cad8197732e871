"""What every section of the settings is made of: strict fields and the kinds that they share."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict


class Section(BaseModel):
    """Refuses what it does not know, never changes, never shows what was written in errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def _address(value: str) -> str:
    if re.fullmatch(r"0x[0-9a-fA-F]{40}", value) is None:
        raise ValueError("an address is 0x and 40 hex digits")
    return value.lower()


ContractAddress = Annotated[str, AfterValidator(_address)]
