"""Endpoints of ours over real sockets, and a daemon among those that lie."""
