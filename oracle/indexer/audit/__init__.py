"""Being sure of what is held: second reads, row differences, gaps, repair."""
