"""What happened, one by one: tasks, groups, rounds, kickouts, draws, and all of it as events."""
