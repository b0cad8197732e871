"""`kickout` list, evidence, propose, execute, cancel, export."""
