"""Delivers notifications in order and at least once (docs/how-to/notifications.md).

Public names: `Notifier`, `Webhook`, `AppriseTarget`, `Target`.
"""
