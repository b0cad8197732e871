"""The demo passes, and it fails when something is wrong."""
