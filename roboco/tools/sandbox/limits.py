"""Limits of the resources that code in the sandbox may use."""

from dataclasses import dataclass, replace

KIB, MIB = 1024, 1024 * 1024
MAX_PAGE_BYTES = 64 * KIB
"""The largest page of memory that a file system in memory allocates."""
INIT_BYTES = 16 * MIB
"""Memory of the first process, which is part of Roboco. It is counted, since code can take it over."""
FOLDER_BYTES = MIB
"""Memory of the folders that the sandbox itself creates."""


@dataclass(frozen=True)
class SandboxLimits:
    """Sizes are in bytes. Each limit is for the whole run with all of its processes, unless it says otherwise."""

    seconds: float = 20
    memory: int = 512 * MIB
    """Also the maximum that one process can allocate: a larger request raises MemoryError and ends nothing."""
    processes: int = 32
    """Threads are counted, too."""
    disk: int = 64 * MIB
    """All written files, also in /tmp and /dev/shm. They lie in memory, beside `memory`."""
    file: int = 32 * MIB
    """The size of one written file."""
    files: int = 32
    """The number of files that are kept."""
    entries: int = 4096
    """Files, folders and links of every kind that exist at one time."""
    output: int = 64 * KIB
    """The kept part of the output: its beginning and its end."""
    printed: int = 16 * MIB
    """The output that is read before the run is ended."""
    code: int = MIB
    inputs: int = 256 * MIB
    """All input files together; they lie in memory, beside `disk`."""
    input_files: int = 64

    @property
    def fixed_memory(self) -> int:
        """Return the memory that a run needs beside `memory`, `disk` and `inputs`, in bytes."""
        return INIT_BYTES + FOLDER_BYTES + self.code + self.input_files * MAX_PAGE_BYTES

    @property
    def total_memory(self) -> int:
        """Return the maximum memory of one run, files and inputs included, in bytes."""
        return self.fixed_memory + self.memory + self.disk + self.inputs

    def scaled_to(self, share: int) -> "SandboxLimits":
        """Return these limits, with memory, disk and inputs reduced in proportion if `total_memory` exceeds the share.

        The share, in bytes, must be larger than `fixed_memory`.
        """
        if share >= self.total_memory:
            return self
        free, full = share - self.fixed_memory, self.total_memory - self.fixed_memory
        disk = self.disk * free // full
        return replace(
            self,
            memory=self.memory * free // full,
            disk=disk,
            file=min(self.file, disk),
            inputs=self.inputs * free // full,
        )
