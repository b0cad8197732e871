"""Tests of one room each: no chain, no server, no process, no socket, no sleep."""
