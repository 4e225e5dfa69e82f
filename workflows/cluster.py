"""The Ray cluster that work runs on: one that is there, or one of this machine alone, made for the occasion."""

import logging
import os
import secrets
import socket
import sys

from workflows.errors import ClusterError

_SECONDS_TO_ANSWER = 10
LOST_SOON = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_grpc_client_keepalive_time_ms": "2000",
    "RAY_grpc_client_keepalive_timeout_ms": "2000",
}
"""What makes Ray notice within seconds, not minutes, that a link is cut. Nodes of a cluster need it when they start."""


def connect(address: str | None, cpus: int | None = None) -> bool:
    """Joins the cluster at this address ('auto', 'HOST:PORT', 'ray://…'); without one, starts Ray on this machine.

    cpus: of the machine's own cluster. It listens on 127.0.0.1 and asks for a token that only this
    process knows, provided that Ray was not imported before.
    """
    # A failed task or a lost actor becomes a message of ours: one is enough, and Ray would print its own to stdout.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    if address is not None:
        for name, value in LOST_SOON.items():
            os.environ.setdefault(name, value)
    elif "ray" not in sys.modules:  # Ray reads these when it is imported
        os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # a cluster of one machine: loopback only, on Linux too
    import ray

    if ray.is_initialized():
        return False
    quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    try:
        if address is not None:
            _knock(address)
            ray.init(address=address, **quiet)
            return True
        ray.init(address="local", num_cpus=cpus, include_dashboard=False, **quiet)
        return True
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        said = " ".join(str(error).split())
        if address is None:
            raise ClusterError(f"cannot start Ray on this machine: {said}; --workers 0 does without it") from None
        raise ClusterError(f"no Ray cluster at {address!r}: {said}") from None


def _knock(address: str) -> None:
    """Ray itself tries for minutes to reach a cluster that is not there."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not (host and port.isdigit()):
        return
    try:
        socket.create_connection((host, int(port)), timeout=_SECONDS_TO_ANSWER).close()
    except OSError as error:
        raise ClusterError(f"no Ray cluster at {address!r}: {error.strerror or error}") from None
