"""The selection service over real sockets, and as a process of its own."""
