"""The Ray cluster that work runs on: one that is there, or one of this machine alone, made for the occasion."""

import logging
import os
import re
import secrets
import socket
import sys
from typing import Any

from workflows.errors import ClusterError

SECONDS_TO_CONNECT = 8.0
"""For a host that may be far away."""
SECONDS_TO_ANSWER = 5.0
"""For the cluster's first word, once the host has answered."""
LOST_SOON = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_grpc_client_keepalive_time_ms": "2000",
    "RAY_grpc_client_keepalive_timeout_ms": "2000",
}
"""What makes Ray notice within seconds, not minutes, that a link is cut. Nodes of a cluster need it when they start."""
OF_JOINING = {
    "RAY_NUM_REDIS_GET_RETRIES": "5",
    "RAY_raylet_start_wait_time_s": "5",
    "RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "2",
}
"""Seconds for which Ray looks for a cluster that has answered us, instead of half a minute and more."""
CLIENT = "ray://"
TOKEN = (
    "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH to a file with the cluster's token (or RAY_AUTH_TOKEN to itself)"
)


def connect(address: str | None, cpus: int | None = None) -> bool:
    """Joins the cluster at this address ('auto', 'HOST:PORT', 'ray://…'); without one, starts Ray on this machine.

    cpus: of the machine's own cluster. It listens on 127.0.0.1 and asks for a token that only this
    process knows, provided that Ray was not imported before.
    """
    # A failed task or a lost actor becomes a message of ours: one is enough, and Ray would print its own to stdout.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    if address is not None:
        for name, value in (LOST_SOON | OF_JOINING).items():
            os.environ.setdefault(name, value)
    elif "ray" not in sys.modules:  # Ray reads these when it is imported
        os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # a cluster of one machine: loopback only, on Linux too
    import ray

    if ray.is_initialized():
        return False
    quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if address is not None:
        _join(address, quiet)
        return True
    try:
        ray.init(address="local", num_cpus=cpus, include_dashboard=False, **quiet)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        raise ClusterError(f"cannot start Ray on this machine: {_flat(error)}; --workers 0 does without it") from None
    return True


def knock(address: str, host: str, port: int) -> None:
    """Ray itself tries for minutes to reach a host that is not there."""
    try:
        socket.create_connection((host, port), timeout=SECONDS_TO_CONNECT).close()
    except OSError as error:
        raise ClusterError(
            f"no Ray cluster at {address!r}: {error.strerror or error}; is it running, and can this machine reach it?"
        ) from None


def _join(address: str, quiet: dict[str, Any]) -> None:
    import ray

    place = _place(address)
    if place is not None:
        knock(address, *place)
        _ask(address, *place)
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError, ray.exceptions.RayError) as error:
        raise ClusterError(_why(address, _flat(error))) from None


def _place(address: str) -> tuple[str, int] | None:
    """Host and port; None where Ray must say what is wrong."""
    from ray._private.services import canonicalize_bootstrap_address

    resolved: str | None = address
    if address == "auto":
        resolved = canonicalize_bootstrap_address(address)
        if resolved is None:
            raise ClusterError(
                "no Ray cluster runs on this machine: start one with 'ray start --head', name one with "
                "--ray-address HOST:PORT, or leave --ray-address out"
            )
    host, _, port = str(resolved).rpartition("://")[2].rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isdigit() else None


def _ask(address: str, host: str, port: int) -> None:
    """The simplest question there is: Ray repeats those that are refused for want of a token, and says nothing."""
    import grpc
    from ray._private.grpc_utils import init_grpc_channel
    from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc, ray_client_pb2, ray_client_pb2_grpc

    with init_grpc_channel(f"[{host}]:{port}" if ":" in host else f"{host}:{port}") as channel:
        try:
            if address.startswith(CLIENT):
                ping = ray_client_pb2.ClusterInfoRequest(type=ray_client_pb2.ClusterInfoType.PING)
                ray_client_pb2_grpc.RayletDriverStub(channel).ClusterInfo(ping, timeout=SECONDS_TO_ANSWER)
            else:
                asked = gcs_service_pb2.GetClusterIdRequest()
                gcs_service_pb2_grpc.NodeInfoGcsServiceStub(channel).GetClusterId(asked, timeout=SECONDS_TO_ANSWER)
        except grpc.RpcError as error:
            raise ClusterError(_refusal(address, error)) from None


def _refusal(address: str, error: Any) -> str:
    if error.code().name in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
        return f"the Ray cluster at {address!r} wants its token, and got none or another: {TOKEN}"
    if error.code().name == "UNIMPLEMENTED" or "HTTP" in (error.details() or ""):
        other = "10001, with ray:// before the host" if address.startswith(CLIENT) else "6379, and for ray:// 10001"
        return f"what answers at {address!r} is another service: the usual port of a Ray cluster is {other}"
    return (
        f"no Ray cluster at {address!r}: the host is there, but what listens does not answer as Ray would "
        f"({error.details() or error.code().name})"
    )


def _why(address: str, said: str) -> str:
    """What Ray's message means to a user."""
    versions = re.findall(r"Ray: (\S+) Python: (\S+)", said)
    if len(versions) >= 2:
        theirs, ours = (f"Ray {ray} and Python {python}" for ray, python in versions[:2])
        return (
            f"the Ray cluster at {address!r} runs {theirs}, this process {ours}: install the same versions here, or "
            "let the cluster run the study by itself: mmbsgd submit"
        )
    if "raylet" in said.lower() and not address.startswith(CLIENT):
        return (
            f"this machine is not a node of the Ray cluster at {address!r}: run the command on one of its nodes, "
            f"use --ray-address ray://HOST:10001, or send the study there: mmbsgd submit ({said})"
        )
    return f"no Ray cluster at {address!r}: {said}"


def _flat(error: BaseException) -> str:
    return " ".join(str(error).split())
