"""The project as an ASGI application, with one client for its lifetime."""

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from django.core.asgi import get_asgi_application

from video_orders import open_orders

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "django_shop.settings")
django = get_asgi_application()


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Django has no lifespan events of its own; requests are Django's."""
    if scope["type"] == "lifespan":
        await run_lifespan(scope, receive, send)
    else:
        await django(scope, receive, send)


async def run_lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    """Open the orders, and close them when the server stops."""
    await receive()  # lifespan.startup
    async with open_orders() as scope["state"]["orders"]:
        await send({"type": "lifespan.startup.complete"})
        await receive()  # lifespan.shutdown
    await send({"type": "lifespan.shutdown.complete"})
