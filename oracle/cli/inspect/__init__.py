"""Commands that look: explain, replay, rules, status."""
