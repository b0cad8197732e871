"""The 74 fault cases of publishing, each played through the real parts on a real chain."""
