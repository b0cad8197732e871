"""The daemon as a process: starting, following, publishing, ending."""
