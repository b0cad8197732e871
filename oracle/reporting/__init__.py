"""Reports: cut, planned, checked and pushed."""
