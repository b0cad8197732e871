"""What is shipped for operators is whole: alerts that fire, panels, services that start."""
