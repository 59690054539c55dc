"""The server that tests of real models stand on does what it says."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.model_server import (
    RESET,
    Act,
    Forever,
    ModelServer,
    closed_port,
    deaf_port,
    head,
    whole,
)


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        yield client


def ask(client: socket.socket, body: bytes = b"{}", path: str = "/v1") -> None:
    client.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


def all_of(client: socket.socket) -> bytes:
    data = b""
    while more := client.recv(65536):
        data += more
    return data


@pytest.mark.parametrize("before", [[], [head()], [head(), b"5\r\nda"]], ids=["at once", "after headers", "in a chunk"])
def test_a_reset_reaches_the_client_as_one(before: list[Act]) -> None:
    with ModelServer([*before, RESET]) as server, connected(server.port) as client:
        ask(client)
        with pytest.raises(ConnectionResetError):
            all_of(client)


def test_model_server_notices_a_client_that_leaves_mid_answer() -> None:
    answers: list[list[Act]] = [whole({}), [head(), Forever(b"x")]]
    with ModelServer(*answers) as server:
        with connected(server.port) as client:
            ask(client)
            ask(client)
            server.wait_for(2)
        server.asked[1].gone.wait()
        assert not server.asked[0].gone.is_open


def test_a_request_too_many_fails_the_test() -> None:
    def too_many() -> None:
        with ModelServer() as server, connected(server.port) as client:
            ask(client)
            with pytest.raises(ConnectionResetError):
                all_of(client)

    with pytest.raises(AssertionError, match="request 1 came, and the test has no answer to it"):
        too_many()


def test_a_closed_port_refuses_and_a_deaf_one_does_not_answer() -> None:
    with closed_port() as port, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=10)
    with deaf_port() as port, pytest.raises(TimeoutError):
        socket.create_connection(("127.0.0.1", port), timeout=0.05)
