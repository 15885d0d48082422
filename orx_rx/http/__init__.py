"""The edge to HTTP: the source of chunks, and the client that builds whole pipelines."""

from __future__ import annotations

from orx_rx.http.checks import CheckResult, check_server
from orx_rx.http.client import Client
from orx_rx.http.retry import Retry
from orx_rx.http.source import sse_chunks
from orx_rx.http.threaded import ThreadedClient
from orx_rx.http.timeouts import Timeouts

__all__ = ["CheckResult", "Client", "Retry", "ThreadedClient", "Timeouts", "check_server", "sse_chunks"]
