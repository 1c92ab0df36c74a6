"""The wheel's allocator, as far as tests reach it."""

def fail_allocation_in(count: int) -> None:
    """Let the ``count``-th allocation from now on (1 = the next) and all after it fail; 0 ends it."""
