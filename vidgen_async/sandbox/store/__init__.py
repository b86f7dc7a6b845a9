"""The state of a sandbox on disk."""
