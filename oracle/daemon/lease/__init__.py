"""The lease: the single writer of a database, its holder, and whether the holder is alive."""
