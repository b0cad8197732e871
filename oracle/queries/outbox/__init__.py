"""What is asked of the outbox: figures for metrics, answers for programs."""
