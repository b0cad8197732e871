"""Keys, signers and peers."""
