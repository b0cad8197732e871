"""The loop while it runs: what is said, drawn, answered, judged, and who comes and goes."""
