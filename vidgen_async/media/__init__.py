"""Uploads of reference images, and downloads of videos."""
