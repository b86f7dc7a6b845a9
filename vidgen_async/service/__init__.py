"""The description of the service in code: endpoints, JSON, statuses, retries and validation."""
