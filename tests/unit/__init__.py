"""Tests of single packages: no chain, server, process, socket or sleep."""
