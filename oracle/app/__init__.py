"""The composition: one `App` made of one configuration."""

from oracle.app.app import App

__all__ = ["App"]
