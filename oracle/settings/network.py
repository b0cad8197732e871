"""The section `[network]`: how its contracts are read, and where they are."""

from typing import Literal

from pydantic import Field

from oracle.settings.section import ContractAddress, Section


class Network(Section):
    profile: Literal["reference"] = "reference"
    contracts: dict[str, ContractAddress] = Field(min_length=1)
