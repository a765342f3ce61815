"""Compaction: the positions after which a history is compacted, and its events are archived."""

FIRST_COMPACTION = 16


def compaction_due(seq: int) -> bool:
    """Return True if the history is compacted after the step at this position: after 16 steps, 256, 4096, and so on.

    On S3 each step is stored as a segment object. Compaction merges the segments into one file. With these positions a
    step is written once as a segment, 1/15 times on average by compactions on the way, and once when the task ends.
    Readers fetch many segments in parallel, so a long tail of segments is cheap.
    """
    return _is_due(seq, FIRST_COMPACTION)


def archiving_due(seq: int) -> bool:
    """Return True if a waiting task's events are archived after this step: each of the first 16, then 32, 64, ..."""
    return seq < FIRST_COMPACTION or _is_due(seq, 2)


def _is_due(seq: int, factor: int) -> bool:
    point = FIRST_COMPACTION
    while point < seq + 1:
        point *= factor
    return point == seq + 1
