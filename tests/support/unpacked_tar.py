"""The files in the tar of an exported task."""

import hashlib
import io
import tarfile

from roboco.domain.removal.task_file import FILES_PREFIX, HEADER_NAME, MANIFEST_NAME, TarHeader, TarManifest


def unpacked(tar: bytes) -> dict[str, bytes]:
    """Return the content of each file by its path below the folder of the task, after a check of the manifest."""
    with tarfile.open(fileobj=io.BytesIO(tar)) as members:
        (first, header), *found, (last, manifest) = (
            (info.name, content.read()) for info in members if (content := members.extractfile(info)) is not None
        )
    assert (first, last) == (HEADER_NAME, MANIFEST_NAME)
    assert TarHeader.model_validate_json(header).format == 1
    files = {name.removeprefix(FILES_PREFIX): content for name, content in found}
    assert {one.path: (one.size, one.sha256) for one in TarManifest.model_validate_json(manifest).files} == {
        path: (len(content), hashlib.sha256(content).hexdigest()) for path, content in files.items()
    }
    assert len(files) == len(found)
    return files
