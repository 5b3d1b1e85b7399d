"""The files of a batch, before they are loaded: still there, still as long as the manifest says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.errors import OutputDisagrees
from tidegauge.model.batch_data import LakeFile
from tidegauge.storage.store import open_store

if TYPE_CHECKING:
    import pyarrow.parquet as pq


def check(files: Sequence[LakeFile]) -> None:
    """Raises OutputDisagrees, naming a file that is gone or has another size.

    A store is asked once for each folder.
    """
    for _, group in groupby(files, key=lambda file: (file.lake, file.path.rpartition("/")[0])):
        _check_folder(list(group))


def local_path(file: LakeFile) -> Path:
    return Path(file.lake.path) / file.path


def footer(file: LakeFile) -> pq.FileMetaData:
    """The footer of a local file. Raises OutputDisagrees where it is no whole Parquet file, or has another
    number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = local_path(file)
    try:
        found = pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        raise disagrees(file, f"cannot be read as Parquet: {error}") from error
    if found.num_rows != file.rows:
        raise disagrees(file, f"has {found.num_rows} rows and should have {file.rows}")
    return found


def disagrees(file: LakeFile, what: str) -> OutputDisagrees:
    return OutputDisagrees(
        f"{file.lake.path}/{file.path} {what}",
        hint="somebody changes files of the lake: put it back from a backup, or extract the table again",
    )


def _check_folder(files: Sequence[LakeFile]) -> None:
    sizes = _sizes(files)
    for file in files:
        size = sizes.get(file.path)
        if size is None:
            raise disagrees(file, "is not there")
        if size != file.bytes:
            raise disagrees(file, f"has {size} bytes and should have {file.bytes}")


def _sizes(files: Sequence[LakeFile]) -> dict[str, int]:
    lake = files[0].lake
    if lake.on_s3:
        folder = files[0].path.rpartition("/")[0]
        return {entry.path: entry.bytes for entry in open_store(lake).list(folder)}
    return dict(_local_sizes(files))


def _local_sizes(files: Sequence[LakeFile]) -> Iterable[tuple[str, int]]:
    for file in files:
        try:
            yield file.path, local_path(file).stat().st_size
        except FileNotFoundError:
            continue
        except OSError as error:
            raise disagrees(file, f"cannot be read: {error}") from error
