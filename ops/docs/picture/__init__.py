"""The demo as an animated picture for README.md: `make picture` draws it from a real run."""
