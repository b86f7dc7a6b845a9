"""Programs that measure, side by side with peers in one run; what counts is the ratios."""
