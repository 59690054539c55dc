"""The state folder of the tests of outcomes, so that none is in the user's."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def state_folder_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield
