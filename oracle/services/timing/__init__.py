"""When a report may leave: whether it is worth its gas, and whether it is believable."""
