"""The daemon's HTTP servers, and their protection against abusive clients."""
