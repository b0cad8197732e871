"""Tests of several packages together, with chains, servers, sockets and processes."""
