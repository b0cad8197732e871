"""Tests of the selection service over real sockets, and as a separate process."""
