"""Draws and encodes the videos of the sandbox."""
