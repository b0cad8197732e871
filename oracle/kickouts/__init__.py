"""Plans and sends the calls of kickouts, and publishes the evidence behind each kickout."""
