"""The `kickout` commands: list, evidence, propose, execute, cancel, export."""
