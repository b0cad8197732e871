"""Tests of the devnet's endpoints over real sockets, and of a daemon with lying endpoints."""
