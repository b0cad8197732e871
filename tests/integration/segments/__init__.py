"""Tests of history prepared by workers: real processes, complete databases compared."""
