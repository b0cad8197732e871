"""Where keys lie: each module is one kind of place; `opening` finds the one that is configured."""
