"""Delivers notifications in order and at least once (docs/how-to/notifications.md).

Other packages use `Notifier`, `Webhook`, `AppriseTarget` and `Target`.
"""
