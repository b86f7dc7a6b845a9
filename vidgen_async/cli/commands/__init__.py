"""The commands, a module for each group: their options, their help and what they do."""
