"""``Source``: where the bytes of one object are. ``Store``: the methods of a kind of storage. ``STORES``: all of them.

A store is one module, whose ``STORE`` is a class with the methods of ``Store``. What is the same for all stores is in
other modules: ``sources`` reads the caller's arguments, ``listing`` and ``folder`` list and write, ``sink`` writes from
start to end, and ``remote`` reads all storage that needs requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from orcidx.errors import InvalidQuery
from orcidx.extras import needed
from orcidx.options import RequestOptions
from orcidx.storage.fingerprint import Fingerprint
from orcidx.storage.given import BytesReader, FileObjectReader
from orcidx.storage.hive_paths import hive_partition
from orcidx.storage.ranges import LentReader, RangeReader, as_expected
from orcidx.storage.secrets import WithSecrets, has_secrets, secret_names

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "AT_HAND",
    "IN_NO_STORE",
    "STORES",
    "Found",
    "Sink",
    "Source",
    "Store",
    "Upload",
    "in_filesystem",
    "is_url",
    "of_object",
    "of_text",
    "store_class",
    "store_of",
]


IN_NO_STORE = frozenset({"bytes", "object", "reader"})
AT_HAND = IN_NO_STORE | {"path"}
"""The kinds of sources that need no request."""


@dataclass(frozen=True)
class Source:
    """One object: its ``name`` as the caller gave it, and everything that is needed to open it.

    ``kind`` says which store it is in (``stores.STORES``); "bytes", "object" (a file object) and "reader" are in none.
    Pickles unless it stands for an open file object or reader, or has secrets that ``with_secrets`` was not called for
    (``ships_secrets``); then it raises ``InvalidQuery``. ``to_dict`` gives paths and URLs as JSON, without
    ``storage_options`` (they hold secrets). ``root`` is the directory whose listing found the object, if any. ``size``
    (bytes) and ``listed`` (the version) are what the listing said.

    Examples
    --------
    >>> from orcidx.storage import describe_source
    >>> describe_source("data").below("a.orc").name
    'data/a.orc'
    """

    name: str
    kind: str
    location: Any = field(repr=False)
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    filesystem: Any = field(default=None, repr=False, hash=False)
    root: str | None = None
    size: int | None = field(default=None, compare=False)
    listed: Fingerprint | None = field(default=None, compare=False, repr=False)
    ships_secrets: bool = field(default=False, compare=False, repr=False)

    def open(self, options: RequestOptions | None = None, *, expected: Fingerprint | None = None) -> RangeReader:
        """A reader of the object; see ``storage.open_reader``.

        Parameters
        ----------
        options : ReadOptions, optional
            How requests are made: their size, number and retries.
        expected : Fingerprint, optional
            The version that was seen before, such as a footer's or a split's. A remote object is trusted to be that
            version, with no request, until its first answer says otherwise.

        Returns
        -------
        RangeReader

        Raises
        ------
        StorageError
            A local file is not the expected version.
        FileNotFoundError
            There is no such local file.
        """
        if self.kind not in IN_NO_STORE:
            store, path = store_class(self.kind).of(self)
            return store.open(path, name=self.name, options=options, expected=expected)
        reader = self._open_given(options)
        return reader if expected is None else as_expected(reader, self.name, expected)

    def _open_given(self, options: RequestOptions | None) -> RangeReader:
        if self.kind == "bytes":
            return BytesReader(self.location, name=self.name, options=options)
        if self.kind == "object":
            return FileObjectReader(self.location, name=self.name, options=options)
        return LentReader(self.location)

    def below(self, path: str) -> Source:
        """The object at a path below this directory.

        Parameters
        ----------
        path : str
            A relative path, with slashes.

        Returns
        -------
        Source
        """
        name, location = f"{self.name.rstrip('/')}/{path}", f"{str(self.location).rstrip('/')}/{path}"
        ships = self.ships_secrets
        return Source(name, self.kind, location, self.storage_options, self.filesystem, self.root, ships_secrets=ships)

    @property
    def in_store(self) -> bool:
        """Whether the object has a path or URL, so that other objects may lie beside it; bytes, file objects and
        readers have none."""
        return self.kind not in IN_NO_STORE

    @property
    def partition(self) -> dict[str, str | None]:
        """The ``key=value`` directories between ``root`` and the object (see ``hive_partition``)."""
        return hive_partition(self.location, self.root) if self.root is not None else {}

    def to_dict(self) -> dict[str, Any]:
        """The source as JSON values, without ``storage_options``.

        Returns
        -------
        dict
            The keys are "name", "location" and "root".

        Raises
        ------
        InvalidQuery
            The source has no path or URL that works elsewhere, or its URL has a signature or password.
        """
        location = store_class(self.kind).address(self.location, self.filesystem) if self.in_store else None
        if location is None:
            raise InvalidQuery(f"{self.name}: only paths and URLs can be written as JSON")
        if has_secrets(location):
            raise InvalidQuery(f"{self.name}: a URL with a signature or password is not written as JSON; pickle it")
        return {"name": self.name, "location": location, "root": self.root}

    @staticmethod
    def from_dict(value: Mapping[str, Any], *, storage_options: Mapping[str, Any] | None = None) -> Source:
        """The source that ``to_dict`` described.

        Parameters
        ----------
        value : mapping of str
            What ``to_dict`` returned.
        storage_options : mapping, optional
            Options of the file system of a URL.

        Returns
        -------
        Source

        Examples
        --------
        >>> from orcidx.storage import Source, describe_source
        >>> source = describe_source("data/a.orc")
        >>> Source.from_dict(source.to_dict()).name
        'data/a.orc'
        """
        found = of_text(value["location"], storage_options or {})
        ships = isinstance(storage_options, WithSecrets)
        return replace(found, name=value["name"], root=value.get("root"), ships_secrets=ships)

    def __getstate__(self) -> dict[str, Any]:
        if self.kind in ("object", "reader"):
            raise InvalidQuery(f"{self.name}: an open file cannot go to another process; give its path, URL or bytes")
        if self.kind not in AT_HAND and not self.ships_secrets:
            self._refuse_secrets()
        state = dict(self.__dict__)
        if self.kind == "bytes":
            state["location"] = bytes(self.location)
        return state

    def _refuse_secrets(self) -> None:
        found = secret_names(self.storage_options)
        if self.kind != "hadoop":  # it pickles as a token
            found += secret_names(self.filesystem, "filesystem")
        if isinstance(self.location, str) and has_secrets(self.location):
            found.append("the URL's signature or password")
        if found:
            raise InvalidQuery(
                f"{self.name}: a pickle would hold what may be secret ({', '.join(found)[:200]}). Leave that out where "
                "each machine has credentials of its own, in its environment for example; or let it go along, by "
                "storage_options=orcidx.with_secrets({...})"
            )

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


@dataclass(frozen=True)
class Found:
    """A file: its path in its storage, and its size and version as far as the listing tells."""

    path: str
    version: Fingerprint | None

    @property
    def size(self) -> int | None:
        return None if self.version is None else self.version.size


@dataclass(frozen=True)
class Upload:
    """An upload in parts that is not finished: the path that it is for, its id, and when it began (ns, None: not
    known). Its parts are stored, and charged for, until it is finished or aborted."""

    path: str
    id: str
    began: int | None


class Sink(Protocol):
    """One object that is written front to back. ``close`` publishes it, ``abort`` leaves nothing behind.

    ``name``: the path or URL, for messages.
    """

    name: str

    def write(self, data: Buffer) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class Store(Protocol):
    """One file system, bucket or service. Its paths have slashes between their parts.

    Its methods may raise any exception of a library; ``failures`` says what each means.
    """

    @staticmethod
    def describe(given: object, storage_options: Mapping[str, Any]) -> Source | None:
        """What a text (a path or URL of the store's schemes) or an object of the store's library refers to; None where
        it refers to nothing that can be read."""

    @staticmethod
    def in_filesystem(text: str, filesystem: object) -> Source | None:
        """The source of a path in a file system object; None where the object is not of this store."""

    @staticmethod
    def address(location: str, filesystem: object) -> str | None:
        """The path or URL by which any process finds a source of this store; None where it has none."""

    @staticmethod
    def of(source: Source) -> tuple[Store, str]:
        """The store that a source is in, and its path there."""

    def source(self, path: str) -> Source:
        """The source of a path."""

    def open(
        self, path: str, *, name: str, options: RequestOptions | None, expected: Fingerprint | None
    ) -> RangeReader: ...

    def file(self, path: str) -> Found | None:
        """The object of this name; None where there is none, or a directory."""

    def walk(self, path: str) -> list[Found]:
        """Every object below a directory or prefix, in any order, hidden ones too; none where there is nothing."""

    def expand(self, source: Source, path: str) -> list[Source]:
        """The files that a source names: itself, or those of a directory, prefix or glob that are not hidden."""

    def put(self, path: str, data: bytes) -> None:
        """Writes an object whole or not at all, replacing one that is there."""

    def create(self, path: str, data: bytes, *, single_writer: bool) -> bool:
        """Writes an object unless there is one already: see ``writers``."""

    def exists(self, path: str) -> bool: ...

    def read(self, path: str) -> bytes: ...

    def delete(self, path: str) -> None: ...

    def make_parent(self, path: str) -> None:
        """Makes the directory of a file, where the store has directories."""

    def uploads(self, path: str) -> list[Upload]:
        """Unfinished uploads below a directory or prefix; empty where the store has none or does not list them."""

    def sink(self, path: str, *, name: str, part_bytes: int) -> Sink:
        """Where an object is written front to back, and appears whole or not at all."""


@dataclass(frozen=True)
class Registered:
    """A store's module, which is imported when the store is used; the ``kind`` of its sources; the schemes of its URLs
    ("": a path); and the library whose objects are its own, as the modules of their classes are called."""

    module: str
    kinds: tuple[str, ...]
    schemes: tuple[str, ...] = ()
    library: str | None = None


STORES = (
    Registered("orcidx.storage.local", ("path",), schemes=("", "file", "local")),
    Registered("orcidx.storage.fsspec_backend", ("url", "fsspec"), schemes=("*",), library="fsspec"),
    Registered("orcidx.storage.arrow_backend", ("arrow",), library="pyarrow._fs"),
    Registered("orcidx.storage.obstore_backend", ("obstore",), library="obstore"),
    Registered("orcidx.storage.hadoop_store", ("hadoop",)),
)
"""The stores, in the order in which they are asked whether an object is theirs. "*": every scheme that no other has."""

_OF_KIND = {kind: line.module for line in STORES for kind in line.kinds}
_OF_SCHEME = {scheme: line.module for line in STORES for scheme in line.schemes}

# A scheme has at least two letters (one is a Windows drive); "::" chains fsspec file systems.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+)(?:://|::)|(file|local):", re.IGNORECASE)


@cache
def _class_in(module: str) -> type[Store]:
    with needed("fsspec"):
        found: type[Store] = import_module(module).STORE
    return found


@cache
def store_class(kind: str) -> type[Store]:
    """The store of a source's kind."""
    return _class_in(_OF_KIND[kind])


def store_of(source: Source) -> tuple[Store, str]:
    """The store that a source is in, and its path there."""
    return store_class(source.kind).of(source)


def is_url(text: str) -> bool:
    return _URL.match(text) is not None


def of_text(text: str, storage_options: Mapping[str, Any]) -> Source:
    """The source of a path or URL."""
    match = _URL.match(text)
    scheme = "" if match is None else "*" if "::" in text else (match[1] or match[2]).lower()
    found = _class_in(_OF_SCHEME.get(scheme) or _OF_SCHEME["*"]).describe(text, storage_options)
    assert found is not None, "a store has the schemes that its line says"
    return found


def of_object(given: object) -> Source | None:
    """The source of an object of a store's library, such as an open file; None where it is of no store's library."""
    return next((found for store in _stores_of(given) if (found := store.describe(given, {})) is not None), None)


def in_filesystem(text: str, filesystem: object) -> Source:
    """The source of a path in a file system object."""
    for store in _stores_of(filesystem):
        if (found := store.in_filesystem(text, filesystem)) is not None:
            return found
    raise TypeError(f"not a file system: {type(filesystem).__name__}; give one of fsspec, pyarrow.fs or obstore")


def _stores_of(value: object) -> list[type[Store]]:
    """The stores to whose library an object may belong; a pair belongs to the library of its first item."""
    if isinstance(value, tuple) and value:
        value = value[0]
    modules = {f"{cls.__module__}." for cls in type(value).__mro__}
    return [
        _class_in(line.module)
        for line in STORES
        if line.library is not None and any(module.startswith(line.library + ".") for module in modules)
    ]
