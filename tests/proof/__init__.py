"""Proofs: what holds for every schedule, not only for those that were thought of."""
