"""What the daemon says about itself: log lines and numbers."""
