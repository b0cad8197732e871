"""Reports: cut, planned, weighed, pushed."""
