"""Commands that only read: explain, replay, export, rules, nodes, status, audit and others."""
