"""The command line: one subpackage per group of commands."""
