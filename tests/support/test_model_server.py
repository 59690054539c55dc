"""The server that tests of real models stand on does what it says."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.model_server import (
    CLOSE,
    END,
    RESET,
    Act,
    Asked,
    Forever,
    Gate,
    ModelServer,
    chunk,
    closed_port,
    deaf_port,
    head,
    stream,
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


def test_answers_are_given_in_order_byte_for_byte_on_one_connection() -> None:
    with ModelServer(whole({"n": 1}), [*stream(b"data: x\n\n"), CLOSE]) as server, connected(server.port) as client:
        ask(client, b'{"first": true}')
        (first,) = whole({"n": 1})
        assert isinstance(first, bytes)
        assert client.recv(65536) == first
        ask(client)
        told = all_of(client)
        assert told.endswith(chunk(b"data: x\n\n") + END)
        assert told == b"".join(part for part in stream(b"data: x\n\n") if isinstance(part, bytes))
    assert [asked.json for asked in server.asked] == [{"first": True}, {}]
    assert server.connections == 1


@pytest.mark.parametrize("before", [[], [head()], [head(), b"5\r\nda"]], ids=["at once", "after headers", "in a chunk"])
def test_a_reset_reaches_the_client_as_one(before: list[Act]) -> None:
    with ModelServer([*before, RESET]) as server, connected(server.port) as client:
        ask(client)
        with pytest.raises(ConnectionResetError):
            all_of(client)


def test_it_waits_at_a_gate_until_that_opens() -> None:
    gate = Gate()
    with ModelServer([b"one", gate, b"two", CLOSE]) as server, connected(server.port) as client:
        ask(client)
        assert client.recv(3) == b"one"
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)
        client.settimeout(10)
        gate.open()
        assert all_of(client) == b"two"


def test_it_notices_that_the_client_went_while_it_was_answering_and_only_then() -> None:
    answers: list[list[Act]] = [whole({}), [head(), Forever(b"x")]]
    with ModelServer(*answers) as server:
        with connected(server.port) as client:
            ask(client)
            ask(client)
            server.wait_for(2)
        server.asked[1].gone.wait()
        assert not server.asked[0].gone.is_open


def test_it_counts_what_is_under_way() -> None:
    gate = Gate()

    def reply(asked: Asked) -> list[Act]:
        if server.under_way == 3:
            gate.open()
        return [gate, *whole({})]

    with ModelServer(reply=reply) as server:
        clients = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(3)]
        for client in clients:
            ask(client)
        for client in clients:
            assert client.recv(15).startswith(b"HTTP/1.1 200")
            client.close()
    assert (server.most_under_way, server.connections) == (3, 3)


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
