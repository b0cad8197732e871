"""The daemon, and what the commands share with it: the scheduler and its jobs, the lease, HTTP."""
