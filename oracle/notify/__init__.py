"""Notifications to subscribers, at least once and in order (docs/how-to/notifications.md).

Public names: `Notifier`, `Webhook`, `AppriseTarget`, `Target`.
"""
