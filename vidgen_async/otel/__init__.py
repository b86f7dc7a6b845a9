"""OpenTelemetry: a span for each request, and what the watcher does as metrics. Needs the extra ``otel``; nothing of
the SDK imports it.

::

    async with Client(transport=TracedTransport(DirectTransport())) as client:
        with observe(client):
            ...

Providers that are not given are the global ones, as OpenTelemetry was set up when these are made. **Nothing is added to
the requests**: no ``traceparent``, no baggage; the service's description knows no such headers.

**Spans** are of kind CLIENT, named by the operation (``videos.get``, ``videos.create`` …), and children of the caller's
span; those of polls, which many waits share, are roots, a trace each: where there are too many, let a sampler drop the
roots named ``videos.get``. One lasts until the body has been taken or the response was closed.

=============================  ==============================================================================
attribute                      what it holds
=============================  ==============================================================================
``http.request.method``        ``GET``, ``POST``
``server.address``             the host; ``server.port``: the port
``url.full``                   the service's own address without its query; of any other one (a signed link)
                               the origin alone
``http.response.status_code``  where an answer came
``error.type``                 the status from 400 on, or the class of the exception; then the span's status
                               is ERROR, described by names of classes, never in the exception's words
``vidgen.op``                  the operation
``vidgen.task_id``             where the address names a task by a plain word
``vidgen.delivery``            of creates and of failures: ``not_sent``, ``maybe_sent``, ``answered``
``vidgen.phase``               of the same: how far it got
=============================  ==============================================================================

**Metrics**, read when they are collected; a watcher pays nothing for them:

===============================  ==================  ========  ================================================
name                             instrument          unit      attributes of its own
===============================  ==================  ========  ================================================
``http.client.request.duration`` histogram           s         those of spans, but for address, task and evidence
``vidgen.creates``               counter             {create}  ``vidgen.outcome``: ``accepted``, ``rejected``,
                                                               ``uncertain``, ``not_sent``; of the whole process
``vidgen.watcher.tasks``         up-down counter     {task}    watched now
``vidgen.watcher.active_polls``  up-down counter     {poll}    under way now
``vidgen.watcher.polls``         counter             {poll}    failed ones included
``vidgen.watcher.poll_errors``   counter             {poll}    ``error.type``: the class of the error
``vidgen.watcher.lateness``      gauge               s         ``vidgen.statistic``: ``p50``, ``p99``, ``max``
``vidgen.watcher.interval``      gauge               s         between two polls of one task, as it is now
``vidgen.watcher.paused``        gauge               1         1 while a 429 pauses all polls, else 0
===============================  ==================  ========  ================================================

``http.client.request.duration`` is recorded by :class:`TracedTransport`, in the time of the transport's clock; all
others are reported by :func:`observe`. No attribute, event or description holds a key, an Idempotency-Key, a prompt, a
signed query or a header.
"""

try:
    from vidgen_async.otel.metrics import Observer, observe
    from vidgen_async.otel.spans import TracedTransport
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "opentelemetry":
        raise
    message = 'vidgen_async.otel needs opentelemetry-api: pip install "vidgen-async[otel]"'
    raise ImportError(message) from error

__all__ = ["Observer", "TracedTransport", "observe"]
