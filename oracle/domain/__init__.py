"""The rules of node scoring: values and functions of values. Standard library only, no clock."""
