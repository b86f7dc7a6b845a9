"""The videos of the sandbox: what they show, drawn and encoded."""
