"""The command line: one sub-room per command group."""
