"""The record of a job of ``write_dataset``. It is a manifest in the directory ``_orcidx_write/``, beside the data.
Readers ignore this directory.

A file belongs to the job when the manifest lists it. The manifest lists a file only after the file has its final name.
Any other file with the job's name was left by a killed run. Such a file is written again under the same name, or
deleted."""

from __future__ import annotations

import hashlib
import json
import uuid
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, Literal, get_args

from orcidx.errors import CorruptFile, InvalidQuery, StorageError
from orcidx.orc.foreign import MAGIC
from orcidx.rewriting.partitions import PartitionKey
from orcidx.rewriting.row_hashes import RowsSeen
from orcidx.storage import Fingerprint, Source
from orcidx.storage.folder import Folder, Stored
from orcidx.storage.listing import is_hidden

__all__ = ["DatasetJob", "JobFile", "Mode"]

Mode = Literal["error", "append", "overwrite"]

JOB_FOLDER = "_orcidx_write"
VERSION = 1
SAVED_SHARE = 50
"""The manifest names every file. It is written again when the number of files has grown by a fiftieth, so ten thousand
files cause about three hundred writes. After a kill, at most a fiftieth of the files is written again."""


@dataclass(frozen=True)
class JobFile:
    """A finished file. ``seen`` is a hash of its rows. The hash shows whether a later call has other rows."""

    path: str
    partition: PartitionKey
    rows: int
    bytes: int
    seen: RowsSeen


@dataclass
class DatasetJob:
    """The job ``name`` and its files. ``token`` is a part of the names of its files.

    ``replaced`` has the files that this job overwrites. Other jobs wrote them before this job began. Each file has its
    version at that time. The files are deleted when this job is done. The manifest lists them from the beginning,
    because files that other writers add or change in the meantime must not be deleted. ``replaced`` is None if this job
    overwrites nothing. ``made_of`` has the replaced files and the files that the rows come from. Only users who can
    read all files of ``made_of`` may read the written files. A job without a name (``resumes`` is False) keeps no
    manifest."""

    folder: Folder
    name: str
    spec: str
    files: list[JobFile] = field(default_factory=list)
    done: bool = False
    resumes: bool = True
    replaced: tuple[Stored, ...] | None = None
    made_of: list[Source] = field(default_factory=list)
    _unsaved: int = 0

    @property
    def token(self) -> str:
        return hashlib.sha256(self.name.encode()).hexdigest()[:12]

    @property
    def _manifest(self) -> str:
        return f"{JOB_FOLDER}/{self.token}.json"

    @property
    def replaced_data(self) -> list[str]:
        """The replaced files that have rows."""
        return [one.name for one in self.replaced or () if not _is_manifest(one)]

    @staticmethod
    def open(folder: Folder, name: str | None, spec: str, mode: Mode = "error") -> DatasetJob:
        """Reads the job from its manifest, or makes a new job. Raises ``InvalidQuery`` in two cases: the job was
        started with other options, or the directory has files of other jobs and ``mode`` does not allow them."""
        if mode not in get_args(Mode):
            raise InvalidQuery(f"mode must be one of {', '.join(get_args(Mode))}, not {mode!r}")
        own = f"unnamed {uuid.uuid4()}" if name is None else name
        job = DatasetJob(folder, own, spec, resumes=name is not None)
        raw = folder.read(job._manifest) if job.resumes else None
        if raw is not None:
            job._read(raw)
        listed = folder.list()
        found = (one for one in listed if f"-{job.token}." not in one.name and _holds_rows(folder, one.name))
        plans = mode == "overwrite" and not job.done and job.replaced is None
        others = list(islice(found, {"error": 1, "append": 0, "overwrite": None if plans else 0}[mode]))
        if mode == "error" and others:
            raise InvalidQuery(
                f"the directory already has other files, such as {others[0].name}; use mode='append' to add rows, or "
                "mode='overwrite' to replace these files. To resume a job, give the same job= as before",
                file=folder.name,
            )
        if mode != "overwrite":
            job.replaced = None
        elif plans:
            job.replaced = (*others, *(one for one in listed if _is_manifest(one) and one.name != job._manifest))
            job._save()
        job.replaced = _still_there(job, listed)
        job._clean()
        return job

    def _read(self, raw: bytes) -> None:
        place = f"{self.folder.name.rstrip('/')}/{self._manifest}"
        try:
            found: Any = json.loads(raw)
            if found["version"] != VERSION:
                raise InvalidQuery(
                    f"the manifest has version {found['version']}; this orcidx supports version {VERSION}", file=place
                )
            spec, self.done = found["spec"], found["done"]
            self.files = [_file_of(one) for one in found["files"]]
            planned = found.get("replaced")  # manifests of older versions do not have this entry
            self.replaced = None if planned is None else tuple(_stored_of(one) for one in planned)
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, InvalidQuery):
                raise
            raise CorruptFile(
                f"the manifest of the job {self.name!r} is damaged: {error!r}. To write all rows again, delete the "
                f"manifest and the job's files (*-{self.token}.orc)",
                file=place,
            ) from error
        if spec != self.spec and (self.files or self.done):
            raise InvalidQuery(
                f"the job {self.name!r} was started with another schema or other options; give another name as job=",
                file=self.folder.name,
            )

    def _clean(self) -> None:
        """Deletes files that a killed run left, and checks that the listed files exist."""
        listed = {one.path: one for one in self.files}
        for stored in self.folder.list():
            if _is_data(stored.name) and f"-{self.token}." in stored.name:
                known = listed.pop(stored.name, None)
                if known is None:
                    self.folder.delete(stored.name)
                elif stored.version.size != known.bytes:
                    raise self._lost(known, f"it has {stored.version.size} bytes instead of {known.bytes}")
        for known in listed.values():
            raise self._lost(known, "it is gone")

    def _lost(self, file: JobFile, what: str) -> StorageError:
        return StorageError(
            f"the file {file.path} of the job {self.name!r} cannot be used: {what}. To write all rows again, delete "
            f"the job's files (*-{self.token}.orc) and {self._manifest}",
            file=self.folder.name,
        )

    def add(self, file: JobFile) -> None:
        """Adds a finished file."""
        self.files.append(file)
        self._unsaved += 1
        if self._unsaved * SAVED_SHARE >= len(self.files):
            self._save()

    def finish(self) -> None:
        """Marks the job as done, and then deletes the files that it replaces. If the run is killed between these two
        steps, the new files and old files remain. The next call with the same arguments deletes the remaining old
        files. If one of the old files has changed, none is deleted, and the job is not marked as done."""
        if self.replaced:
            self.replaced = _still_there(self, self.folder.list())
        self.done = True
        self._save()
        for one in self.replaced or ():
            self.folder.delete(one.name)
        if self.replaced:
            self.replaced = None
            self._save()

    def drop(self) -> None:
        """After an error, deletes the files of a job that cannot be resumed. Errors during deletion are ignored,
        because the first error is raised."""
        if not self.resumes and not self.done:
            for one in self.files:
                with suppress(StorageError, OSError):
                    self.folder.delete(one.path)

    def _save(self) -> None:
        if not self.resumes:
            return
        body = {
            "version": VERSION, "job": self.name, "spec": self.spec, "done": self.done,
            "files": [asdict(one) for one in self.files],
            "replaced": None if self.replaced is None else [_stored_json(one) for one in self.replaced],
        }  # fmt: skip
        self.folder.put(self._manifest, json.dumps(body).encode())
        self._unsaved = 0

    def of_partition(self, key: PartitionKey) -> list[JobFile]:
        return [one for one in self.files if one.partition == key]


def spec_of(*parts: Any) -> str:
    """A short hash of the arguments that must be the same in a later call of the job."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _still_there(job: DatasetJob, listed: list[Stored]) -> tuple[Stored, ...] | None:
    """The files that the job must delete and that still exist. Raises ``StorageError`` if one of them has changed."""
    if job.replaced is None:
        return None
    versions = {one.name: one.version for one in listed}
    left = tuple(one for one in job.replaced if one.name in versions)
    changed = next((one.name for one in left if not one.version.matches(versions[one.name])), None)
    if changed is not None:
        raise StorageError(
            f"{changed} has changed since this job began, so mode='overwrite' deletes no old file now. Perhaps another "
            "job writes to this directory; if so, wait until it is done. To keep the changed file, move it to another "
            "directory until the next call is done. To discard it, delete it. Then call again with the same arguments",
            file=job.folder.name,
        )
    return left


def _is_manifest(stored: Stored) -> bool:
    return stored.name.startswith(f"{JOB_FOLDER}/")


def _stored_json(stored: Stored) -> dict[str, Any]:
    return {"path": stored.name, **asdict(stored.version)}


def _stored_of(item: Any) -> Stored:
    version = Fingerprint(int(item["size"]), item["etag"], item["mtime"])
    return Stored(str(item["path"]), version)


def _is_data(name: str) -> bool:
    return name.endswith(".orc") and not any(map(is_hidden, name.split("/")))


def _holds_rows(folder: Folder, name: str) -> bool:
    """Whether a reader of the directory finds ORC rows in a file. Files of Hive, such as 000000_0, have no suffix. So
    if a name does not end in ``.orc``, the first bytes of the file are read."""
    if any(map(is_hidden, name.split("/"))):
        return False
    if name.endswith(".orc"):
        return True
    try:
        with closing(folder.source(name).open()) as reader:
            size = min(reader.size(), len(MAGIC))
            return size == len(MAGIC) and bytes(reader.read_ranges([(0, size)])[0]) == MAGIC
    except FileNotFoundError:  # deleted since it was listed
        return False


def _file_of(item: Any) -> JobFile:
    seen = RowsSeen(**{name: int(value) for name, value in item["seen"].items()})
    return JobFile(str(item["path"]), tuple(item["partition"]), int(item["rows"]), int(item["bytes"]), seen)
