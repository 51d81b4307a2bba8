# SPDX-License-Identifier: Apache-2.0
"""Ports for the servers of tests."""
import contextlib
import random
import socket


def free_port():
    """One that nobody listens on, below those that the system gives to connections: it stays free until it is used, also
    when it is used again later."""
    for port in random.sample(range(20000, 32768), 100):
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")
