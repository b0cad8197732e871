"""The `report` commands: show, push, release, verify."""
