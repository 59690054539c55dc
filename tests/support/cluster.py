"""A Dask cluster on this machine, for all tests of one module: to start one takes three seconds."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import distributed


@contextmanager
def local_cluster() -> Iterator[Any]:
    """A client of two worker processes."""
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # None takes port 8787 all the same, and warns where it is taken
            silence_logs=logging.CRITICAL,
        ) as cluster,
        cluster.get_client() as client,
    ):
        yield client
