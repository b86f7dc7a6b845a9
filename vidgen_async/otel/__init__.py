"""OpenTelemetry: a span for each request, and metrics of the watcher and of creates. Needs the extra ``otel``; no other
module of the SDK imports it.

::

    async with Client(transport=TracedTransport(DirectTransport())) as client:
        with observe(client):
            ...

The default providers are the global ones at the time of the call. **Nothing is added to the requests**: no
``traceparent``, no baggage; the service's description has no such headers.

**Spans** are of kind CLIENT, named after the operation (``videos.get``, ``videos.create`` …), and children of the
caller's span; those of polls, which many waits share, are root spans. If these are too many, let a sampler drop root
spans named ``videos.get``. A span ends when the body was read or the response was closed.

=============================  ==============================================================================
attribute                      value
=============================  ==============================================================================
``http.request.method``        ``GET``, ``POST``
``server.address``             the host; ``server.port``: the port
``url.full``                   for the service's own addresses the URL without its query; for others (signed
                               links) only the origin
``http.response.status_code``  if a response was received
``error.type``                 the status from 400 on, or the class of the exception; then the span's status
                               is ERROR, with the names of classes, never the message of the exception
``vidgen.op``                  the operation
``vidgen.task_id``             where the URL contains a task id of plain characters
``vidgen.delivery``            for creates and failures: ``not_sent``, ``maybe_sent``, ``answered``
``vidgen.phase``               for failures: the last phase that was begun, where it is known
=============================  ==============================================================================

**Metrics**, computed when they are collected, without a cost for the watcher:

===============================  ==================  ========  ================================================
name                             instrument          unit      attributes
===============================  ==================  ========  ================================================
``http.client.request.duration`` histogram           s         those of spans, except URL, task and evidence
``vidgen.creates``               counter             {create}  ``vidgen.outcome``: ``accepted``, ``rejected``,
                                                               ``uncertain``, ``not_sent``; of the whole process
``vidgen.watcher.tasks``         up-down counter     {task}    watched tasks
``vidgen.watcher.active_polls``  up-down counter     {poll}    polls in progress
``vidgen.watcher.polls``         counter             {poll}    including failed ones
``vidgen.watcher.poll_errors``   counter             {poll}    ``error.type``: the class of the error
``vidgen.watcher.lateness``      gauge               s         ``vidgen.statistic``: ``p50``, ``p99``, ``max``
``vidgen.watcher.interval``      gauge               s         the current polling interval of a task
``vidgen.watcher.paused``        gauge               1         1 while a 429 pauses all polls, else 0
===============================  ==================  ========  ================================================

``http.client.request.duration`` is recorded by :class:`TracedTransport` with the transport's clock, the others by
:func:`observe`. No attribute, event or description contains an API key, an Idempotency-Key, a prompt, a signed query or
a header.
"""

try:
    from vidgen_async.otel.metrics import Observer, observe
    from vidgen_async.otel.spans import TracedTransport
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "opentelemetry":
        raise
    raise ImportError('vidgen_async.otel needs opentelemetry-api: pip install "vidgen-async[otel]"') from error

__all__ = ["Observer", "TracedTransport", "observe"]
