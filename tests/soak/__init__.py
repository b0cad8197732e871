"""Long runs with endpoints that fail at random: nothing is lost, and memory stays flat."""
