# The public names of `bl.models`. See boolab/core/lazy_names.py.

from boolab.core.types import Response as Response
from boolab.core.types import ToolCall as ToolCall
from boolab.core.types import Usage as Usage
from boolab.models.base import Model as Model
from boolab.models.base import Request as Request
from boolab.models.mock.server import MockServer as MockServer
from boolab.models.remote.rate_limit import RateLimit as RateLimit
from boolab.models.remote.retry import Retry as Retry
from boolab.models.remote.timeouts import Timeouts as Timeouts
from boolab.models.simulated.profile import Profile as Profile
