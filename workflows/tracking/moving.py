"""A home folder that was moved or copied. MLflow keeps absolute paths of its files, which then lead elsewhere."""

import sqlite3
from contextlib import closing


def follow(database: str, experiment: str, old: str, new: str) -> None:
    """Lets the experiment and its runs look for their files in a new place. MLflow itself has no call for that."""
    number = int(experiment)
    with closing(sqlite3.connect(database, timeout=30.0)) as connection, connection:
        connection.execute("UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?", (new, number))
        connection.execute(
            "UPDATE runs SET artifact_uri = ? || substr(artifact_uri, ?) "
            "WHERE experiment_id = ? AND instr(artifact_uri, ?) = 1",
            (new, len(old) + 1, number, old),
        )
