"""The section `[keys]`: where the keys are; never a key itself."""

from pathlib import Path

from oracle.settings.section import Section


class Keys(Section):
    signer_keystore: Path | None = None
    signer_password_file: Path | None = None
    transmitter_keystore: Path | None = None
    transmitter_password_file: Path | None = None
    dispatcher_keystore: Path | None = None
    dispatcher_password_file: Path | None = None
