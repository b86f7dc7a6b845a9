"""The exit codes, and how help describes them."""

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes. For a create they answer the first question: did it arrive?"""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_SENT = 3
    REFUSED = 4
    UNCERTAIN = 5
    TIMEOUT = 6
    DOWNLOAD = 7


EXIT_CODES = """\b
Exit codes:
  0    done
  1    the task failed, or another error
  2    usage, configuration or an invalid request; nothing was ordered
  3    not sent: nothing was sent or ordered, or the journal failed
  4    rejected by the service: nothing was created or charged
  5    uncertain: the order may have arrived and be charged; check first
  6    the wait timed out; the task may still be running
  7    the video was not saved; the task is completed and charged
  130  interrupted (Ctrl-C); 129 hangup, 131 quit, 143 terminated"""
