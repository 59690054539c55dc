"""Remote models: OpenAI's and Anthropic's protocols over HTTP.

Read `model` first: one request, its retries and its stream. `protocol` is what a provider's modules implement,
`transport` sends, `retry` decides whether to try again, `timeouts` and `rate_limit` are the client's options.
"""
