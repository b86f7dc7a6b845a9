"""OpenTelemetry: spans of requests, orders and waits, and metrics. Needs the extra ``otel``; no other module of the SDK
imports it.

::

    async with Client(transport=TracedTransport(DirectTransport())) as client:
        with observe(client):
            ...

The default providers are the global ones at the time of the call. **Nothing is added to the requests**: no
``traceparent``, no baggage; the service's description has no such headers.

**Spans** of requests are of kind CLIENT, named after the operation (``videos.get``, ``videos.create`` …), and made by
:class:`TracedTransport`. They end when the body was read or the response was closed.

Those of an order (``videos.order``: from its start to its outcome and the end of ``on_receipt``, one for all calls that
join it) and of a call that waits (``videos.wait``: of ``wait``, ``watch``, ``as_completed``, ``rewatch``, ``generate``)
are of kind INTERNAL, made by :func:`observe` for the whole process, and children of the caller's span. The requests of
an order are children of its span.

Polls, which many waits share, have no spans, unless the transport is made with ``polls=True``: then they are children
of a wait, with links to the others. A failed poll and the end of a task are span events of the waits (``poll.failed``,
``task.ended``); a wait for the submission limit is one of the order (``order.paced``).

=============================  ==============================================================================
attribute                      value
=============================  ==============================================================================
``http.request.method``        ``GET``, ``POST``
``server.address``             the host; ``server.port``: the port
``url.template``               for the service's own addresses, below the base URL: ``/videos/{id}``
``url.full``                   for the service's own addresses the URL without its query; for others (signed
                               links) only the origin
``http.response.status_code``  if a response was received
``error.type``                 the status from 400 on, or the class of the exception; then the span's status
                               is ERROR, with the names of classes, never the message of the exception
``vidgen.op``                  the operation
``vidgen.order_id``            of creates and orders
``vidgen.request_id``          the service's id of the request, if a response names it; that of an order is of
                               its last attempt, like ``vidgen.attempt`` and ``vidgen.outcome``
``vidgen.model``               of orders, and of tasks that end
``vidgen.task_id``             where the URL contains a task id of plain characters; of orders; of waits for
                               one task. ``vidgen.task_count`` is the number of tasks of a wait
``vidgen.delivery``            for creates and failures: ``not_sent``, ``maybe_sent``, ``answered``
``vidgen.phase``               for failures: the last phase that was begun, where it is known
=============================  ==============================================================================

**Metrics** of the watcher and of orders are computed when they are collected, without a cost for the watcher;
the orders are those of the client's account, read from the journal on the event loop at the collection before. Creates,
tasks and downloads are counted for the whole process; a task that several processes watch is counted by each.

================================ ==================  ========  ================================================
name                             instrument          unit      attributes
================================ ==================  ========  ================================================
``http.client.request.duration`` histogram           s         those of spans, except URL, ids and evidence
``vidgen.creates``               counter             {create}  ``vidgen.outcome``: ``accepted``, ``rejected``,
                                                               ``uncertain``, ``not_sent``; ``vidgen.model``
``vidgen.order.count``           gauge               {order}   ``vidgen.state``: ``queued``, ``sending``,
                                                               ``uncertain``; of each at most 10,000 are counted
``vidgen.order.uncertain_age``   gauge               s         since the oldest uncertain order was sent
``vidgen.task.ended``            counter             {task}    ``vidgen.state``, ``vidgen.model``
``vidgen.task.points``           counter             {point}   the same; the points of tasks that ended
``vidgen.task.duration``         histogram           s         the same; from ``created_at`` to the
                                                               ``updated_at`` of the terminal state
``vidgen.download.duration``     histogram           s         ``error.type``: if the video was not saved
``vidgen.download.size``         counter             By        bytes received
``vidgen.watcher.tasks``         up-down counter     {task}    watched tasks
``vidgen.watcher.active_polls``  up-down counter     {poll}    polls in progress
``vidgen.watcher.polls``         counter             {poll}    including failed ones
``vidgen.watcher.poll_errors``   counter             {poll}    ``error.type``: the class of the error
``vidgen.watcher.lateness``      gauge               s         ``vidgen.statistic``: ``p50``, ``p99``, ``max``
``vidgen.watcher.interval``      gauge               s         the current polling interval of a task
``vidgen.watcher.paused``        gauge               {pause}   1 while a 429 pauses all polls, else 0
================================ ==================  ========  ================================================

``http.client.request.duration`` is recorded by :class:`TracedTransport` with the transport's clock, the others by
:func:`observe`. No attribute, event or description contains an API key, an Idempotency-Key, a prompt, a signed query or
a header.
"""

try:
    from vidgen_async.otel.metrics import observe
    from vidgen_async.otel.observer import Observer
    from vidgen_async.otel.spans import TracedTransport
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "opentelemetry":
        raise
    raise ImportError('vidgen_async.otel needs opentelemetry-api: pip install "vidgen-async[otel]"') from error

__all__ = ["Observer", "TracedTransport", "observe"]
