"""Endpoints of ours, over real HTTP and WebSocket, that are wrong in every way that we know.

A tree of true blocks (`tree`), views of it that answer as an endpoint does (`provider`), a script
of faults (`faults`), and a server (`server`, `websocket`). Recorded chains are served too
(`recording`), and any endpoint through faults of ours (`upstream`).
"""
