"""Notifications to subscribers, at least once and in order (docs/how-to/be-told.md).

Public names: `Notifier`, `Webhook`, `AppriseTarget`, `Target`.
"""
