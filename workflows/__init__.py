"""The jobs around the solver, and the `mmbsgd` command."""
