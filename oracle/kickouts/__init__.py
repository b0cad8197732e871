"""Plans and sends kickout calls, and publishes the evidence for each kickout."""
