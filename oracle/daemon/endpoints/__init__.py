"""What the daemon keeps of its endpoints, and how it waits for one."""
