"""A model that goes together with what refers to it in a circle leaves no open connection."""

import asyncio
import gc
import warnings
from typing import Any

import pytest

from tests.support.model_protocols import Said, Speaks, both, going
from tests.support.model_server import ModelServer, stream


@pytest.mark.slow
@both
def test_a_model_in_a_circle_that_is_collected_leaves_no_connection_open(speaks: Speaks) -> None:
    """Tracebacks and notebooks make such circles; the collector then takes model and connection at once."""

    async def drop(server: ModelServer) -> None:
        circle: list[Any] = [speaks.model(server.url)]
        circle.append(circle)
        assert (await going(circle[0])).text == "Hi."
        del circle
        gc.collect()

    with warnings.catch_warnings(record=True) as left_open:
        warnings.simplefilter("always", ResourceWarning)
        with ModelServer(reply=lambda _: stream(*speaks.events(Said("Hi.")))) as server:
            asyncio.run(drop(server))
        gc.collect()
    assert [str(warning.message) for warning in left_open] == []
