"""Starts workers fast: a program that has loaded the package, has no thread and no event loop, and forks on demand.

Over a socket that it inherits, each message brings the stdin, stdout and stderr of one more worker; the pid goes back.
A worker that has ended stays a zombie until all end together, so a pid never comes to mean another process.
"""

import os
import signal
import socket
import sys
import traceback


def main(control: socket.socket) -> None:
    from tests.proof import worker  # noqa: PLC0415 - what is loaded now is not loaded again by every child

    children = []
    control.send(b"ready")
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 3)
        if not message:
            break
        pid = os.fork()
        if pid == 0:
            control.close()
            for place, descriptor in enumerate(descriptors):
                os.dup2(descriptor, place)
            os.closerange(3, max(descriptors) + 1)
            try:
                worker.main()
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
