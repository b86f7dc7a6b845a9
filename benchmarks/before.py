"""An older commit beside this one: the package ``vidgen_async_before``, in which the package's own name is replaced.

A process that imports no other one can use the package under its own name.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

NAME = "vidgen_async"
BEFORE = f"{NAME}_before"

_ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def installed(commit: str) -> Iterator[str]:
    """A block in which this process and its children can import the package as it was at this commit.

    Yields the directory that has it under its own name.
    """
    path = os.environ.get("PYTHONPATH", "")
    with tempfile.TemporaryDirectory() as directory:
        archive = subprocess.run(["git", "archive", commit, NAME], cwd=_ROOT, stdout=subprocess.PIPE, check=True)  # noqa: S603, S607
        with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
            files.extractall(Path(directory) / "own", filter="data")
        package = shutil.copytree(Path(directory) / "own" / NAME, Path(directory) / BEFORE)
        for module in package.rglob("*.py"):
            module.write_text(module.read_text(encoding="utf-8").replace(NAME, BEFORE), encoding="utf-8")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (directory, path)))
        sys.path.append(directory)
        try:
            yield f"{directory}/own"
        finally:
            sys.path.remove(directory)
            os.environ["PYTHONPATH"] = path
