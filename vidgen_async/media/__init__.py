"""Reference images to the service, and videos from it."""
