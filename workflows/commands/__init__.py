"""The `mmbsgd` command, one module per group of subcommands."""
