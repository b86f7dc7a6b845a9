"""Batches: thousands of videos with one call that can be repeated. Each video is an order; a batch has no state of its
own beside the journal and the files."""

from vidgen_async.batch.batch import Batch
from vidgen_async.batch.checking import BatchRow, BatchRows
from vidgen_async.batch.outcomes import BatchCheck, BatchOutcome, BatchState, PointsBasis
from vidgen_async.batch.run import BatchOptions

__all__ = ["Batch", "BatchCheck", "BatchOptions", "BatchOutcome", "BatchRow", "BatchRows", "BatchState", "PointsBasis"]
