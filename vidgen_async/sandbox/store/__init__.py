"""The state of a sandbox that outlives its process."""
