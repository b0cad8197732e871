"""The composition root, the scheduler and its jobs, the lease, HTTP."""
