"""One patch for each defence: with the patch applied, the tests that it names must fail."""
