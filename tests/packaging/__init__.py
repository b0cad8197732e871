"""What users install: the wheel, outside the checkout."""
