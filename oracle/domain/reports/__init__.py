"""The content and the schedule of reports, and the order of rounds."""
