"""The section `[network]`: how its contracts are read, and where they are."""

from pydantic import Field, StrictBool, StrictInt, StrictStr

from oracle.daemon.config.section import ContractAddress, Section


class NetworkSection(Section):
    # The name of a shipped profile, or the path of a file that ends in `.toml`.
    profile: str = "reference"
    # By their names in the profile; one whose address the profile knows may be left out.
    contracts: dict[str, ContractAddress] = Field(default_factory=dict)
    # Options of the profile that are not to be as it has them.
    options: dict[str, StrictBool | StrictInt | StrictStr] = Field(default_factory=dict)
