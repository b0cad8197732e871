"""Tells subscribers what happened, at least once and in order (docs/how-to/notifications.md).

The door: `Notifier`, `Webhook`, `AppriseTarget`, `Target`.
"""
