"""What code in the sandbox may use up."""

from dataclasses import dataclass, replace

KIB, MIB = 1024, 1024 * 1024
PAGE = 64 * KIB
"""The largest page of memory that a file system in memory gives out."""
FIRST_PROCESS = 16 * MIB
"""Memory of the first process, which is ours. It is counted, since code can take it over."""
FOLDERS = MIB
"""Memory of the folders that the sandbox itself makes."""


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

    @property
    def fixed(self) -> int:
        """Memory that a run needs beside `memory`, `disk` and `inputs`, in bytes."""
        return FIRST_PROCESS + FOLDERS + self.code + self.input_files * PAGE

    @property
    def total(self) -> int:
        """The most memory that one run takes, files and inputs included, in bytes."""
        return self.fixed + self.memory + self.disk + self.inputs

    def within(self, share: int) -> "SandboxLimits":
        """Return these limits, with memory, disk and inputs reduced in proportion if `total` exceeds the share.

        The share, in bytes, must be larger than `fixed`.
        """
        if share >= self.total:
            return self
        free, full = share - self.fixed, self.total - self.fixed
        disk = self.disk * free // full
        return replace(
            self,
            memory=self.memory * free // full,
            disk=disk,
            file=min(self.file, disk),
            inputs=self.inputs * free // full,
        )
