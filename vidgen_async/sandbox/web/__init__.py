"""The sandbox's own pages: the console, the control paths and the OpenAPI document."""
