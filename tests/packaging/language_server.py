"""What an editor proposes: a minimal client of pyright's language server."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class LanguageServer:
    """One session. The server requests its settings, which are answered with the Python interpreter."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: Path, python: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input, self._output = process.stdin, process.stdout
        self._folder, self._python = folder, python
        self._requests = 0

    def start(self) -> None:
        workspace = {"uri": self._folder.as_uri(), "name": "project"}
        capabilities = {"workspace": {"configuration": True}}
        self._request(
            "initialize", processId=None, rootUri=None, workspaceFolders=[workspace], capabilities=capabilities
        )
        self._send({"method": "initialized", "params": {}})

    def complete(self, program: str) -> list[str]:
        """The proposals at the ``|`` in the program, in their order."""
        before, after = program.split("|")
        uri = (self._folder / f"program_{self._requests}.py").as_uri()
        document = {"uri": uri, "languageId": "python", "version": 1, "text": before + after}
        self._send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
        position = {"line": before.count("\n"), "character": len(before.rpartition("\n")[2])}
        found = self._request("textDocument/completion", textDocument={"uri": uri}, position=position)
        return [item["label"] for item in found["items"]]

    def _request(self, method: str, **params: object) -> Any:
        self._requests += 1
        self._send({"id": self._requests, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" not in message and message["id"] == self._requests:
                return message["result"]
            if "method" in message and "id" in message:
                self._send({"id": message["id"], "result": self._answer(message)})

    def _answer(self, message: dict[str, Any]) -> object:
        if message["method"] != "workspace/configuration":
            return None
        settings = {"pythonPath": str(self._python)}
        return [settings if item["section"] == "python" else {} for item in message["params"]["items"]]

    def _send(self, message: dict[str, object]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._input.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._input.flush()

    def _receive(self) -> dict[str, Any]:
        length = 0
        while line := self._output.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        assert length, "the language server has exited"
        message: dict[str, Any] = json.loads(self._output.read(length))
        return message


@contextmanager
def language_server(folder: Path, python: Path) -> Iterator[LanguageServer]:
    """A language server for programs in this folder, which use this Python interpreter."""
    command = [Path(sys.executable).with_name("pyright-langserver"), "--stdio"]
    with subprocess.Popen(  # noqa: S603 - our own command
        command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            server = LanguageServer(process, folder, python)
            server.start()
            yield server
        finally:
            process.terminate()
