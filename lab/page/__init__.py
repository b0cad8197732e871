"""The lab's results as a single HTML file."""
