"""The pages of the sandbox beside the service: the console and the control paths."""
