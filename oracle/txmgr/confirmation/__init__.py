"""From broadcast to final: receipts that two endpoints agree on."""
