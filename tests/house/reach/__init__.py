"""What of oracle/ runs in the daemon, and what in which command."""
