"""What has been written outlives the machine, not only the process."""

import errno
import os
from pathlib import Path


def sync(*paths: Path) -> None:
    """Waits until files, or the names in folders, are on the disk itself.

    macOS only waits until they are in the drive, which may hold them in its own memory for a while.

    Raises:
        OSError: they cannot be brought there.
    """
    for path in paths:
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        except OSError as error:
            # There are file systems that know no such thing of folders.
            if error.errno != errno.EINVAL or not path.is_dir():
                raise
        finally:
            os.close(number)
