"""What can be asked: status, explain, select, queue, replay. Reads only."""
