"""Individual records: tasks, groups, rounds, kickouts and draws, and all of them as events."""
