"""What each command does, under its name. These modules are imported when a command runs: help and completion need
none of them (:func:`vidgen_async.cli.commands.run_action`)."""
