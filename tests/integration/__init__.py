"""Rooms together, and with what is outside: chains, servers, sockets, processes."""
