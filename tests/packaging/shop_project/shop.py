"""A shop for videos, as a user writes it."""

import logging
from typing import Any, TextIO

import structlog
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from flask import Flask, Response, jsonify
from flask.json.provider import DefaultJSONProvider

from vidgen_async import Client, Receipt, VideoTask
from vidgen_async.types import Serializable


def fastapi_app(client: Client) -> FastAPI:
    app = FastAPI()

    async def order(order_id: str) -> Receipt:
        return await client.videos.create(model="gen-2.0", prompt="A paper boat", duration=5, order_id=order_id)

    async def task(task_id: str) -> VideoTask:
        return await client.videos.get(task_id)

    async def page(task_id: str) -> dict[str, Any]:
        return {"tasks": [await client.videos.get(task_id)]}

    async def video(task_id: str) -> StreamingResponse:
        video = await client.videos.open_stream(task_id)
        return StreamingResponse(video, video.status, video.headers)

    app.put("/orders/{order_id}")(order)
    app.get("/tasks/{task_id}")(task)
    app.get("/unannotated/{task_id}", response_model=None)(task)
    app.get("/pages/{task_id}")(page)
    app.get("/videos/{task_id}")(video)
    return app


class Provider(DefaultJSONProvider):
    @staticmethod
    def default(o: Any) -> Any:
        if isinstance(o, Serializable):
            return o.to_dict()
        return DefaultJSONProvider.default(o)


def flask_app(task: VideoTask) -> Flask:
    app = Flask(__name__)
    app.json = Provider(app)

    def show() -> Response:
        return jsonify({"task": task})

    app.add_url_rule("/", view_func=show)
    return app


def log_to(stream: TextIO) -> logging.Handler:
    """Log as JSON, with what the records have besides their messages."""
    handler = logging.StreamHandler(stream)
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[
            structlog.stdlib.ExtraAdder(),
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.JSONRenderer(),
        ]
    )
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    return handler
