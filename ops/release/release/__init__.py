"""Makes releases: pins versions and images, builds each wheel twice, and writes the SBOM."""
