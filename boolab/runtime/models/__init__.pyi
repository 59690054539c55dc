# The public names of `bl.models`. See boolab/core/lazy_names.py.

from boolab.core.types import Response as Response
from boolab.core.types import ToolCall as ToolCall
from boolab.core.types import Usage as Usage
from boolab.runtime.models.base import Model as Model
from boolab.runtime.models.base import Request as Request
from boolab.runtime.models.mock import MockServer as MockServer
from boolab.runtime.models.profile import Profile as Profile
from boolab.runtime.models.remote.options import RateLimit as RateLimit
from boolab.runtime.models.remote.options import Retry as Retry
from boolab.runtime.models.remote.options import Timeouts as Timeouts
from boolab.runtime.models.written_calls import WrittenCalls as WrittenCalls
