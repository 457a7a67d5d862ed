"""Workers find each other before TensorFlow's own start, which waits for them in C++.

That says nothing meanwhile, has no end, and hears no signal. So here worker 0 listens at its
address, the others dial it, and each says who it is. When all have come, and each has reached
every other, the ports are closed again for TensorFlow to open; the connections stay.
"""

import errno
import os
import socket
import time
from contextlib import suppress
from typing import Annotated

import gin
from absl import logging

from t2t_repro.config.values import Range, validated
from t2t_repro.errors import UserError
from t2t_repro.training.admission import Admission, Limit, hello_of
from t2t_repro.training.cluster import Cluster
from t2t_repro.training.connections import Connection, Connections, Gone, LostWorker, value_of

_BACKLOG = 512  # Of a listener that takes none, while all others see whether it is there.
_DIAL_SECONDS, _WELCOME_SECONDS, _PAUSE_SECONDS = 10.0, 10.0, 0.5
# For a worker that cannot take part to say so.
_REPORT_SECONDS = 30.0


@gin.configurable(denylist=["cluster"])
@validated
def find_workers(
    cluster: Cluster, limit_minutes: Annotated[float, Range(above=0, most=1e5)] = 10.0
) -> Connections:
    """Finds all workers of a cluster; the log says whom it waits for.

    Args:
        cluster: of all.
        limit_minutes: how long to wait until all have come.

    Returns:
        the connections; all have free ports, and reach each other.

    Raises:
        UserError: a port is taken, one worker does not reach another, two have one index, or they
            have different versions or clusters; on all that have come.
        LostWorker: not all came in time; on all that did.
    """
    limit = Limit(limit_minutes)
    find = _find_as_others if cluster.index else _find_as_first
    connections = Connections(cluster, {})
    try:
        with connections.telling():
            find(connections, limit)
    except BaseException:
        connections.close()
        raise
    return connections


def _find_as_first(connections: Connections, limit: Limit) -> None:
    """What worker 0 does: lets in all others."""
    with _listener(connections.cluster) as listener, Admission(listener, connections) as admission:
        admission.wait_for_all(limit)
        _check_reach(connections)


def _find_as_others(connections: Connections, limit: Limit) -> None:
    """What every other does: dials worker 0, again if that is started again meanwhile."""
    cluster = connections.cluster
    try:
        listener = _listener(cluster)
    except UserError as error:
        with suppress(LostWorker):
            _dial(cluster, Limit(_REPORT_SECONDS / 60), {"error": str(error)})
        raise
    with listener:
        while True:
            connections.others[0] = _dial(cluster, limit)
            try:
                connections.gather(None)
                break
            except Gone:
                connections.others.pop(0).close()
        _check_reach(connections)


def _check_reach(connections: Connections) -> None:
    """Sees whether all reach each other: TensorFlow would wait for those that do not."""
    cluster = connections.cluster
    if not cluster.index:
        connections.gather(None)
    others = [index for index in range(len(cluster.addresses)) if index != cluster.index]
    failures = filter(None, (_why_out_of_reach(cluster, index) for index in others))
    for index, failure in enumerate(connections.gather(next(failures, None))):
        if failure:
            raise UserError(
                f"worker {index} cannot reach {failure}: mend that address in TF_CONFIG, or what "
                "keeps one machine from the other (names, firewalls)."
            )


def _why_out_of_reach(cluster: Cluster, index: int) -> str | None:
    try:
        socket.create_connection(cluster.split(index), timeout=_DIAL_SECONDS).close()
    except (OSError, UnicodeError) as error:
        return f"{cluster.name(index)} ({_reason(error)})"
    return None


def _listener(cluster: Cluster) -> socket.socket:
    """Opens this worker's port, as TensorFlow will: on all of the machine's addresses.

    Raises:
        UserError: it is taken.
    """
    _, port = cluster.split(cluster.index)
    try:
        if socket.has_dualstack_ipv6():
            with suppress(OSError):
                return socket.create_server(
                    ("", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True
                )
        return socket.create_server(("", port), backlog=_BACKLOG)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise UserError(
            f"port {port} of {socket.gethostname()} cannot be had for "
            f"{cluster.name(cluster.index)} ({os.strerror(error.errno)}): end what uses it (see ss "
            "-ltnp; another worker of this machine needs a port of its own), or give all workers "
            "another in TF_CONFIG."
        ) from error


def _dial(cluster: Cluster, limit: Limit, more: dict[str, str] | None = None) -> Connection:
    """Dials worker 0 until it answers.

    Args:
        cluster: of all.
        limit: of the time.
        more: to be said.

    Raises:
        UserError: what worker 0 says.
        LostWorker: it does not answer in time.
    """
    name, reason = cluster.name(0), ""
    while True:
        left = limit.check([name], reason)
        connection = None
        try:
            dialled = socket.create_connection(cluster.split(0), min(_DIAL_SECONDS, left))
            connection = Connection(dialled, name)
            connection.send(hello_of(cluster) | (more or {}))
            value_of(connection.receive(_WELCOME_SECONDS), "welcome")
            logging.info(f"train: worker {cluster.index} has found {name}, whose log says more")
            return connection
        except UserError:
            raise
        except Gone as error:
            reason = error.what
        except (OSError, UnicodeError) as error:
            reason = _reason(error)
        except ValueError:
            reason = "what answers there is no trainer"
        if connection:
            connection.close()
        time.sleep(_PAUSE_SECONDS)


def _reason(error: OSError | UnicodeError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer"
    return getattr(error, "strerror", None) or str(error)
