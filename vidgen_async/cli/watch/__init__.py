"""The display of ``vidgen watch``."""
