"""The content of reports, their schedule, and the order of rounds."""
