"""What code in the sandbox may use up."""

from dataclasses import dataclass

KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True)
class SandboxLimits:
    """Sizes in bytes; each limit is for the whole run with all of its processes, unless it says otherwise."""

    seconds: float = 20
    memory: int = 512 * MIB
    """Also the most that one process can allocate: asking for more raises MemoryError, and ends nothing."""
    processes: int = 32
    """Threads count, too."""
    disk: int = 64 * MIB
    """All that is written, also to /tmp and /dev/shm; it lies in memory, beside `memory`."""
    file: int = 32 * MIB
    """One file that is written."""
    files: int = 32
    """Files that are kept."""
    entries: int = 4096
    """Files, folders and links of every kind that exist at one time."""
    output: int = 64 * KIB
    """What is kept of the output: its beginning and its end."""
    printed: int = 16 * MIB
    """What is read of the output before the run is ended."""
    code: int = MIB
    inputs: int = 256 * MIB
    """All input files together; they lie in memory, beside `disk`."""
    input_files: int = 64
