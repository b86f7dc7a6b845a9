"""``vidgen sandbox``: its options."""

import click

from vidgen_async.cli.foreground import serve
from vidgen_async.cli.journey import Journey
from vidgen_async.cli.runner import run
from vidgen_async.cli.screens import make_screen


@click.command(name="sandbox")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port; a free one if none is given.")
@click.option(
    "--speed", type=click.FloatRange(min=0, min_open=True), default=1.0, help="Seconds of the sandbox in a real one."
)
@click.option("--debug", envvar="VIDGEN_DEBUG", is_flag=True, help="Show tracebacks.")
def run_sandbox(host: str, port: int, speed: float, debug: bool) -> int:
    """Run a sandbox of the service until Ctrl-C.

    It needs no key and charges nothing. It prints what to export to use it, and a line for everything that it is asked.
    """
    screen, journey = make_screen(is_debug=debug), Journey()
    return run(lambda: serve(host, port, speed, journey, screen), journey, screen, is_debug=debug)
