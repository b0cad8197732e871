"""The parts of every command and of the daemon: the scheduler and its jobs, the lease, HTTP."""
