"""Queue a video as a job of Celery.

python celery_order.py order-1187 "a boat"
"""

import sys

from celery_worker import order_video

if __name__ == "__main__":
    order_video(*sys.argv[1:])
