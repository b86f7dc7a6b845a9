"""The views of the project, which are async, and its middleware."""

from pathlib import Path

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from django.utils.deprecation import MiddlewareMixin
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_GET, require_http_methods
from vidgen_async import VidgenError

from http_answers import EVENT_HEADERS, answer_to, prompt_of
from video_orders import VideoOrders

PAGE = (Path(__file__).parents[1] / "page.html").read_text()


class ErrorMiddleware(MiddlewareMixin):
    """Answers with the status of an error."""

    def process_exception(
        self, _: ASGIRequest, error: Exception
    ) -> JsonResponse | None:
        """The response for an error of the SDK."""
        if not isinstance(error, VidgenError):
            return None
        status, body, headers = answer_to(error)
        return JsonResponse(body, status=status, headers=headers)


def orders_of(request: ASGIRequest) -> VideoOrders:
    """The orders, which are opened when the server starts."""
    orders: VideoOrders = request.scope["state"]["orders"]
    return orders


@require_GET
@ensure_csrf_cookie
async def page(_: ASGIRequest) -> HttpResponse:
    """The page with the form and the orders."""
    return HttpResponse(PAGE)


@require_http_methods(["PUT"])
async def create(request: ASGIRequest, order_id: str) -> HttpResponse:
    """Order a video. The page makes the id, and may repeat the request."""
    prompt = prompt_of(request.body)
    row = await orders_of(request).create(order_id, prompt)
    return JsonResponse(row, status=201)


@require_GET
async def events(request: ASGIRequest) -> StreamingHttpResponse:
    """All changes, as server-sent events."""
    last_event_id = request.headers.get("Last-Event-ID", "")
    return StreamingHttpResponse(
        await orders_of(request).events(last_event_id),
        content_type="text/event-stream",
        headers=EVENT_HEADERS,
    )


@require_GET
async def video(request: ASGIRequest, order_id: str) -> StreamingHttpResponse:
    """The video, or the part of it that the browser asks for. The response
    closes it, also when the browser has disconnected."""
    byte_range = request.headers.get("Range")
    video = await orders_of(request).open_video(order_id, byte_range)
    return StreamingHttpResponse(
        video, status=video.status, headers=dict(video.headers)
    )
