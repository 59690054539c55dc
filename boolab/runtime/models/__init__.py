"""Models: anything that answers a request.

It imports `boolab.core`, `boolab.io`, `boolab.runtime.tools` and `boolab.errors`. Read `base` first: the interface is
one function, `respond`. `scripted` answers from a `script`, `recorded` from a `recording` that `recorder` made,
`simulated` with random draws from a `profile`, `remote` over HTTP. `mock` is a server for `remote` without a provider.
"""

from boolab.core.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__)
