"""What a command prints: status and errors on stderr, results on stdout."""
