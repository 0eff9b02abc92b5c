"""The swap of a rewrite: its manifests of staged and old files, and the steps that replace the old files by the staged
files."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orcidx.errors import CorruptFile, StorageError, Unsupported
from orcidx.rewriting.drafts import exists
from orcidx.spark.jobs.leases import Lease, leased_until
from orcidx.spark.jobs.swap_marks import SWAP_FOLDER, mark, unmark
from orcidx.storage import Fingerprint, Source
from orcidx.storage.folder import Folder
from orcidx.storage.hadoop_store import HadoopStore
from orcidx.storage.local_writing import sync_directory

__all__ = ["SwapGroup", "Swaps"]


@dataclass(frozen=True)
class SwapGroup:
    """Files of one directory that become one file. ``versions`` has the listed version of each file."""

    number: int
    sources: tuple[Source, ...]
    paths: tuple[str, ...]
    sizes: tuple[int, ...]
    staged: str
    final: str

    @property
    def versions(self) -> list[dict[str, Any]]:
        return [dict((source.listed or Fingerprint(-1)).to_dict()) for source in self.sources]


class Swaps:
    """The manifests of a directory. Each manifest has a state. The state says what the next call does if the call that
    wrote the manifest was killed. ``begun``: the staged files are deleted. ``committed``: the swap is completed.
    ``done``: the manifest only records which call made which files. ``kept``: the swap is done, but the old files are
    kept until ``kept_until`` (seconds since 1970).

        {"version": 1, "state": "begun" | "committed" | "kept" | "done", "key": ..., "kept_until": ..., "groups":
            [{"staged", "final", "bytes", "replaced": [{"path", "size", "mtime", "etag"}]}]}
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._token = uuid.uuid4().hex

    def lease(self) -> Lease:
        """The lease on the job that ``begin`` starts."""
        return Lease(self._folder, f"{SWAP_FOLDER}/{self._token}.lease")

    def begin(self, key: str, groups: Sequence[SwapGroup]) -> str:
        name = f"{SWAP_FOLDER}/{self._token}.json"
        self._put(name, {"state": "begun", "key": key, "groups": [{"staged": group.staged} for group in groups]})
        return name

    def discard_staged(self, name: str) -> None:
        """Deletes the staged files of a call that failed."""
        found = self._get(name)
        for group in found["groups"]:
            self._folder.delete(group["staged"])
        unmark(self._folder, name, found["groups"])
        self._folder.delete(name)

    def commit(self, name: str, groups: Sequence[SwapGroup], reported: Mapping[int, Any], kept: float = 0) -> set[int]:
        """Swaps all groups whose files have not changed since they were read. The old files are kept for ``kept``
        seconds."""
        swapped = set()
        chosen = []
        for group in groups:
            now = [self._version(path) for path in group.paths]
            if any(a is None or not Fingerprint(**b).matches(a) for a, b in zip(now, group.versions)):
                self._folder.delete(group.staged)
                continue
            swapped.add(group.number)
            replaced = [{"path": path, **version} for path, version in zip(group.paths, group.versions)]
            one = {"staged": group.staged, "final": group.final, "bytes": reported[group.number]["bytes"]}
            chosen.append({**one, "replaced": replaced})
        found = {**self._get(name), "state": "committed", "groups": chosen}
        if kept:
            found["kept_until"] = time.time() + kept
        mark(self._folder, name, chosen, found.get("kept_until"))
        self._put(name, found)
        self._swap(name, found)
        return swapped

    def _version(self, path: str) -> Fingerprint | None:
        try:
            reader = self._folder.source(path).open()
        except FileNotFoundError:
            return None
        try:
            reader.size()
            return reader.fingerprint()
        except FileNotFoundError:
            return None
        finally:
            reader.close()

    def finish_earlier(self, *, kept_stop: bool = True) -> tuple[str, ...]:
        """Completes or undoes what earlier calls have started, and returns sentences about these calls. If a call still
        keeps its old files, a sentence says for how long. With ``kept_stop``, an error is raised instead."""
        done = []
        listed = [stored.name for stored in self._folder.list(SWAP_FOLDER)]
        for name in sorted(one for one in listed if one.endswith(".json")):
            found = self._get(name)
            if found["state"] == "done":
                continue
            lease = f"{name.removesuffix('.json')}.lease"
            if (left := leased_until(self._folder, lease) - time.time()) > 0:
                raise StorageError(
                    f"another rewrite of this directory is running or was killed; its lease ends in {left:.0f} s, so "
                    "call again after this time",
                    file=self._folder.name,
                )
            old = sum(len(group.get("replaced", ())) for group in found["groups"])
            if found["state"] == "kept" and (left := found["kept_until"] - time.time()) > 0:
                text = f"{old} replaced files are kept for running queries for {left:.0f} s more (keep_old)"
                if kept_stop:
                    raise StorageError(f"{text}; call again after this time", file=self._folder.name)
                done.append(f"{name}: {text}")
                continue
            if found["state"] == "begun":
                self.discard_staged(name)
                done.append(
                    f"{name}: the rewrite was undone before it replaced files; {len(found['groups'])} staged files "
                    "were deleted"
                )
            else:
                state = self._swap(name, found)
                ended = "completed" if state == "done" else "completed, and the old files are kept"
                done.append(f"{name}: the rewrite was {ended}; {len(found['groups'])} files replace {old}")
            self._folder.delete(lease)
        return tuple(done)

    def _swap(self, name: str, found: dict[str, Any]) -> str:
        """Takes those steps of the swap that an earlier call has not taken. The new file gets its name before the old
        files are deleted. So for a moment rows may be seen twice, but they are never missing. Returns the new state."""
        if found["state"] == "committed":
            for group in found["groups"]:
                _rename(self._folder.source(group["staged"]), self._folder.source(group["final"]))
                if "kept_until" not in found:
                    self._delete(group)
        if found["state"] == "committed" and found.get("kept_until", 0) > time.time():
            self._put(name, {**found, "state": "kept"})
            return "kept"
        if "kept_until" in found:
            for group in found["groups"]:
                self._delete(group)
        unmark(self._folder, name, found["groups"])
        self._put(name, {**found, "state": "done"})
        return "done"

    def _delete(self, group: Mapping[str, Any]) -> None:
        """Deletes the old files, except files that were written again in the meantime."""
        for old in group["replaced"]:
            path, listed = old["path"], Fingerprint(old["size"], old["etag"], old["mtime"])
            now = self._version(path)
            if now is not None and listed.matches(now):
                self._folder.delete(path)

    def made_by(self, key: str) -> dict[str, int]:
        """The files that a call with the same options has made before, and their sizes."""
        made = {}
        for stored in self._folder.list(SWAP_FOLDER):
            if stored.name.endswith(".json"):
                found = self._get(stored.name)
                if found["state"] in ("done", "kept") and found["key"] == key:
                    made.update({group["final"]: group["bytes"] for group in found["groups"]})
        return made

    def _get(self, name: str) -> dict[str, Any]:
        raw = self._folder.read(name)
        place = f"{self._folder.name.rstrip('/')}/{name}"
        try:
            found: dict[str, Any] = json.loads(raw or b"")
            version, _ = found["version"], found["groups"]
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFile(
                "this manifest of a rewrite is damaged. It lists files whose replacement has begun. Check that the "
                "directory has the right files before you delete the manifest",
                file=place,
            ) from error
        if version != 1:
            raise Unsupported(
                f"the manifest has version {version}, which only later versions of orcidx support; update orcidx",
                file=place,
            )
        return found

    def _put(self, name: str, found: Mapping[str, Any]) -> None:
        self._folder.put(name, json.dumps({"version": 1, **found}).encode())


def _rename(staged: Source, final: Source) -> None:
    """Gives a staged file its final name, unless the file already has this name."""
    if staged.kind == "path":
        if os.path.lexists(staged.location):
            os.replace(staged.location, final.location)
            sync_directory(os.path.dirname(final.location))
        elif not os.path.lexists(final.location):
            raise _lost(staged, final)
        return
    if staged.kind == "hadoop":
        store, place = HadoopStore(staged.filesystem), str(staged.location)
        if store.exists(place):
            store.rename(place, str(final.location))
        elif not exists(final):
            raise _lost(staged, final)
        return
    from orcidx.storage.fsspec_backend import filesystem_of  # imported late, because the module imports fsspec

    filesystem, place = filesystem_of(staged.location, staged.storage_options)
    filesystem.invalidate_cache()  # a cached listing may be older than the file, which a task wrote
    if filesystem.exists(place):
        filesystem.mv(place, filesystem_of(final.location, final.storage_options)[1])
        filesystem.invalidate_cache()
    elif not exists(final):
        raise _lost(staged, final)


def _lost(staged: Source, final: Source) -> StorageError:
    return StorageError(
        f"neither the staged file {staged.name} nor a file with its final name exists; the files that it replaces are "
        "kept",
        file=final.name,
    )
