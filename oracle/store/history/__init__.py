"""What happened to nodes: scores, changes of reliability, kickouts; and all of it by time."""
