"""Remote models: OpenAI's and Anthropic's protocols over HTTP.

Read `model` first: one request, its retries and its stream. `protocol` is what a provider's modules implement and
share, `transport` sends, and `options` are the client's: timeouts, retries, and a limit on the rate of requests.
"""
