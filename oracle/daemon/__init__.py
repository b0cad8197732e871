"""Opens the parts of every command; the scheduler and its jobs, the lease, HTTP."""
