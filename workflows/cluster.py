"""The Ray cluster that work runs on: one that is there, or one of this machine alone, made for the occasion."""

import logging
import os
import re
import secrets
import socket
import sys
from typing import Any

from workflows.errors import ClusterError, one_line

SECONDS_TO_CONNECT = 8.0
"""For a host that may be far away."""
SECONDS_TO_ANSWER = 4.0
"""For the cluster's first word, once the host has answered."""
LOST_SOON = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_grpc_client_keepalive_time_ms": "2000",
    "RAY_grpc_client_keepalive_timeout_ms": "2000",
}
"""What makes Ray notice within seconds, not minutes, that a link is cut: for all nodes when they start, or for none. A
driver does without: its pings would be too many for nodes that were started otherwise, which then hang up."""
OF_JOINING = {
    "RAY_NUM_REDIS_GET_RETRIES": "5",
    "RAY_raylet_start_wait_time_s": "5",
    "RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "2",
}
"""Seconds for which Ray looks for a cluster that has answered us, instead of half a minute and more."""
CLIENT, CLIENT_PORT = "ray://", 10001
STUMBLED = "Starting Ray client server failed"
"""What a busy cluster says to one of some drivers that come by ray://: the next try succeeds."""
ALIVE = 0
"""The state of a node, as Ray numbers them."""


def token_advice() -> str:
    path = os.environ.get("RAY_AUTH_TOKEN_PATH")
    if path and "RAY_AUTH_TOKEN" not in os.environ and not os.path.isfile(path):
        return f"RAY_AUTH_TOKEN_PATH is {path}, and there is no such file here"
    how = "RAY_AUTH_TOKEN_PATH to a file with the cluster's token (or RAY_AUTH_TOKEN to itself)"
    return f"set RAY_AUTH_MODE=token and {how}"


def connect(address: str | None, cpus: int | None = None) -> bool:
    """Joins the cluster at this address ('auto', 'HOST:PORT', 'ray://…'); without one, starts Ray on this machine.

    cpus: of the machine's own cluster. It listens on 127.0.0.1 and asks for a token that only this
    process knows, provided that Ray was not imported before.
    """
    # A failed task or a lost actor becomes a message of ours: one is enough, and Ray would print its own to stdout.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    if address is not None:
        for name, value in OF_JOINING.items():
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
        said = f"cannot start Ray on this machine: {one_line(error)}; --workers 0 does without it"
        raise ClusterError(said) from None
    return True


def connected() -> bool:
    """Whether this process has joined a cluster; to find out, Ray is not imported."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def knock(named: str, host: str, port: int) -> None:
    """Ray itself tries for minutes to reach a host that is not there. named: the address, in quotes."""
    try:
        socket.create_connection((host, port), timeout=SECONDS_TO_CONNECT).close()
    except OSError as error:
        raise ClusterError(
            f"no Ray cluster at {named}: {error.strerror or error}; is it running, and can this machine reach it?"
        ) from None


def _join(address: str, quiet: dict[str, Any]) -> None:
    import ray

    host, port = _place(address)
    taken = f"{host}:{port}"
    named = repr(address) if address.endswith(taken) else f"{address!r} (which Ray takes for {taken})"
    knock(named, host, port)
    try:
        _ask(named, host, port, client=address.startswith(CLIENT))
    except ray.exceptions.AuthenticationError as error:  # it has none to show, or cannot read it
        raise ClusterError(f"Ray's token is missing: {token_advice()} ({one_line(error).partition('. ')[0]})") from None
    address = f"{CLIENT}{taken}" if address.startswith(CLIENT) else address
    for last in (False, True):
        try:
            ray.init(address=address, **quiet)
            return
        except (ConnectionError, ValueError, RuntimeError, TimeoutError, ray.exceptions.RayError) as error:
            if last or STUMBLED not in str(error):
                raise ClusterError(_why(address, one_line(error))) from None


def _place(address: str) -> tuple[str, int]:
    """Host and port that Ray will take it for, not always the same: it has 127.0.0.1 for the machine's own address."""
    from ray._private.services import canonicalize_bootstrap_address

    resolved: str | None = address
    if not address.startswith(CLIENT):
        try:
            resolved = canonicalize_bootstrap_address(address)
        except ValueError as error:
            raise ClusterError(
                f"--ray-address {address!r}: {error}; write 'auto', HOST:PORT or ray://HOST:PORT"
            ) from None
        except ConnectionError:
            raise ClusterError(
                "no Ray cluster runs on this machine: start one with 'ray start --head', name one with "
                "--ray-address HOST:PORT, or leave --ray-address out"
            ) from None
    host, _, port = str(resolved).rpartition("://")[2].rpartition(":")
    if address.startswith(CLIENT) and not host:
        host, port = port, str(CLIENT_PORT)
    if not (host and port.isdigit()):
        raise ClusterError(f"--ray-address {address!r}: write 'auto', HOST:PORT or ray://HOST:PORT")
    return host.strip("[]"), int(port)


def _ask(named: str, host: str, port: int, *, client: bool) -> None:
    """A simple question: Ray repeats those that are refused for want of a token, and says nothing."""
    import grpc
    from ray._private.grpc_utils import init_grpc_channel
    from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc, ray_client_pb2, ray_client_pb2_grpc

    with init_grpc_channel(f"[{host}]:{port}" if ":" in host else f"{host}:{port}") as channel:
        try:
            if client:
                ping = ray_client_pb2.ClusterInfoRequest(type=ray_client_pb2.ClusterInfoType.PING)
                ray_client_pb2_grpc.RayletDriverStub(channel).ClusterInfo(ping, timeout=SECONDS_TO_ANSWER)
                return
            nodes = gcs_service_pb2_grpc.NodeInfoGcsServiceStub(channel)
            told = nodes.GetAllNodeInfo(gcs_service_pb2.GetAllNodeInfoRequest(), timeout=SECONDS_TO_ANSWER)
        except grpc.RpcError as error:
            raise ClusterError(_refusal(named, error, client)) from None
    alive = [node.node_manager_address for node in told.node_info_list if node.state == ALIVE]
    if not any(map(_is_ours, alive)):  # Ray would end this process with a dump of its stack
        raise ClusterError(
            f"this machine is not a node of the Ray cluster at {named}: run the command on one of its {len(alive)} "
            "nodes, use --ray-address ray://HOST:10001, or send it the study with mmbsgd submit"
        )


def _is_ours(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as own:
        try:
            own.bind((address, 0))
        except OSError:
            return False
    return True


def _refusal(named: str, error: Any, client: bool) -> str:
    if error.code().name in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
        return f"the Ray cluster at {named} wants its token, and got none or another: {token_advice()}"
    if error.code().name == "UNIMPLEMENTED" or "HTTP" in (error.details() or ""):
        other = "10001, with ray:// before the host" if client else "6379, and for ray:// 10001"
        return f"what answers at {named} is another service: the usual port of a Ray cluster is {other}"
    return (
        f"no Ray cluster at {named}: the host is there, but what listens does not answer as Ray would "
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
    return f"no Ray cluster at {address!r}: {said}"
