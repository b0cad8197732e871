"""History prepared by workers: real processes, whole databases compared."""
