"""The command line: `synthdp --help`."""
