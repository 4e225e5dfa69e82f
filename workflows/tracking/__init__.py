"""MLflow as a one-way sink: what a study's storage holds is written there, by a process of its own or by a command."""
