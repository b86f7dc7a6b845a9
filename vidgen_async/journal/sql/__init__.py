"""What the journals in SQL databases have in common."""
