"""The demo holds, and it notices when it does not."""
