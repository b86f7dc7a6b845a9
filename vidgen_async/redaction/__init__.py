"""What may be shown in messages, logs and cassettes."""
