"""Starts workers and services fast: a program that has loaded the package, has no thread and no event loop, and forks.

Over a socket that it inherits, each message names what is to be started and brings its stdin, stdout and stderr; the
pid goes back. A process that has ended stays a zombie until all end together, so a pid never comes to mean another one.
"""

import os
import signal
import socket
import sys
import traceback

#: What can be started.
WORKER, SERVICE, SPENDER = b"worker", b"service", b"spender"


def main(control: socket.socket) -> None:
    from tests.proof import recording_service, spender, worker  # noqa: PLC0415 - loaded now, not again by every child

    programs = {WORKER: worker.main, SERVICE: recording_service.main, SPENDER: spender.main}
    children = []
    control.send(b"ready")
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 16, 3)
        if not message:
            break
        pid = os.fork()
        if pid == 0:
            control.close()
            for place, descriptor in enumerate(descriptors):
                os.dup2(descriptor, place)
            os.closerange(3, max(descriptors) + 1)
            try:
                programs[message]()
            except BaseException:  # noqa: BLE001 - nothing of the child may go on
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)
            os._exit(0)
        children.append(pid)
        for descriptor in descriptors:
            os.close(descriptor)
        control.send(str(pid).encode())
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as control:
        main(control)
