"""``Source`` describes where the bytes of one object are. ``Store`` is the interface of a kind of storage. ``STORES``
lists all stores.

Each store is one module. The module has a class ``STORE`` with the methods of ``Store``. Code that all stores share is
in other modules: ``sources`` interprets the caller's arguments, ``listing`` lists objects, and ``folder`` lists and
writes objects. ``sink`` writes an object from start to end, and ``remote`` reads all storage that needs requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from orcidx.errors import InvalidQuery
from orcidx.extras import needed
from orcidx.frozen import with_fields
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

    ``kind`` is the store of the object (``stores.STORES``). Sources of the kinds "bytes", "object" (a file object) and
    "reader" are in no store. ``root`` is the directory whose listing found the object, if any. ``size`` (bytes) and
    ``listed`` (the version) come from that listing. ``to_dict`` gives paths and URLs as JSON. It leaves out
    ``storage_options``, because these options may contain secrets. A source can be pickled, with two exceptions that
    raise ``InvalidQuery``: an open file object or reader, and secrets for which ``with_secrets`` was not called
    (``ships_secrets``).

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
        """Opens a reader of the object. See ``storage.open_reader``.

        Parameters
        ----------
        options : ReadOptions, optional
            How requests are made: their size, number and retries.
        expected : Fingerprint, optional
            The version that was seen before, for example with a footer or a split. A remote object is
            opened without a request, and the first response is compared with this version.

        Returns
        -------
        RangeReader

        Raises
        ------
        StorageError
            A local file is not the expected version.
        FileNotFoundError
            The local file does not exist.
        """
        if self.in_store:
            store, path = store_of(self)
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
        return with_fields(self, name=name, location=location, size=None, listed=None)

    @property
    def in_store(self) -> bool:
        """Whether the object has a path or URL. Other objects may then exist beside it. Bytes, file objects and readers
        have no path or URL."""
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
            The source has no path or URL that another process can open, or its URL has a signature or password.
        """
        location = store_class(self.kind).address(self.location, self.filesystem) if self.in_store else None
        if location is None:
            raise InvalidQuery(
                f"{self.name}: this source cannot be written as JSON; only paths and URLs can be written"
            )
        if has_secrets(location):
            raise InvalidQuery(
                f"{self.name}: a URL with a signature or a password cannot be written as JSON; pickle the source "
                "instead"
            )
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
            raise InvalidQuery(
                f"{self.name}: an open file cannot be sent to another process; give its path, URL or bytes"
            )
        if self.kind not in AT_HAND and not self.ships_secrets:
            self._refuse_secrets()
        state = dict(self.__dict__)
        if self.kind == "bytes":
            state["location"] = bytes(self.location)
        return state

    def _refuse_secrets(self) -> None:
        found = secret_names(self.storage_options)
        if self.kind != "hadoop":  # Hadoop's file systems are pickled as a token, without settings
            found += secret_names(self.filesystem, "filesystem")
        if isinstance(self.location, str) and has_secrets(self.location):
            found.append("the URL's signature or password")
        if found:
            raise InvalidQuery(
                f"{self.name}: the pickle would contain values that may be secret ({', '.join(found)[:200]}). If each "
                "machine has its own credentials, for example in its environment, leave these values out. Otherwise "
                "permit them with storage_options=orcidx.with_secrets({...})"
            )

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class Found(NamedTuple):
    """A file that a listing found: the path in the storage, and the size and the version if the listing has them."""

    path: str
    version: Fingerprint | None

    @property
    def size(self) -> int | None:
        return None if self.version is None else self.version.size


@dataclass(frozen=True)
class Upload:
    """An unfinished upload in parts. It has a path, an id, and the time when it began (in ns; None if not known). The
    storage keeps the uploaded parts, which cost money, until the upload is completed or aborted."""

    path: str
    id: str
    began: int | None


class Sink(Protocol):
    """One object that is written from start to end. ``close`` publishes the object. ``abort`` discards all data that
    was written.

    ``name``: the path or URL, for messages.
    """

    name: str

    def write(self, data: Buffer) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class Store(Protocol):
    """One file system, bucket or service. The parts of a path are separated by slashes.

    The methods may raise any exception of a library. ``failures`` classifies these exceptions.
    """

    @staticmethod
    def describe(given: object, storage_options: Mapping[str, Any]) -> Source | None:
        """The source for a text (a path, or a URL of the store's schemes) or for an object of the store's library. None
        for anything that cannot be read."""

    @staticmethod
    def in_filesystem(text: str, filesystem: object) -> Source | None:
        """The source of a path in a file system object. None if the object does not belong to this store."""

    @staticmethod
    def address(location: str, filesystem: object) -> str | None:
        """The path or URL with which any process can open a source of this store. None if there is no such path or
        URL."""

    @staticmethod
    def of(source: Source) -> tuple[Store, str]:
        """The store of a source, and the path of the source in that store."""

    def source(self, path: str) -> Source:
        """The source of a path."""

    def open(
        self, path: str, *, name: str, options: RequestOptions | None, expected: Fingerprint | None
    ) -> RangeReader: ...

    def file(self, path: str) -> Found | None:
        """Returns the object with this name. Returns None if there is no object, or if the name is a directory."""

    def walk(self, path: str) -> list[Found]:
        """Lists all objects below a directory or prefix, including hidden objects, in any order."""

    def expand(self, source: Source, path: str) -> list[Source]:
        """The files that a source names: the file itself, or the visible files of a directory, prefix or glob."""

    def put(self, path: str, data: bytes) -> None:
        """Writes an object completely or not at all. An existing object is replaced."""

    def create(self, path: str, data: bytes, *, single_writer: bool) -> bool:
        """Writes an object unless it exists already. See ``writers``."""

    def exists(self, path: str) -> bool: ...

    def read(self, path: str) -> bytes: ...

    def delete(self, path: str) -> None: ...

    def make_parent(self, path: str) -> None:
        """Makes the directory of a file, if the store has directories."""

    def uploads(self, path: str) -> list[Upload]:
        """Unfinished uploads below a directory or prefix. The list is empty if the store has none or cannot list
        them."""

    def sink(self, path: str, *, name: str, part_bytes: int) -> Sink:
        """A sink that writes an object from start to end. The object appears complete or not at all."""


@dataclass(frozen=True)
class Registered:
    """The entry of a store in ``STORES``. ``module`` is imported when the store is used. ``kinds``: the kinds of its
    sources. ``schemes``: the schemes of its URLs ("" for a path). ``library``: a prefix of module names. An object may
    belong to this store if the name of its class's module has this prefix."""

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
"""The stores, in the order in which they are tried for an object. "*" stands for every scheme that no other store
has."""

_OF_KIND = {kind: line.module for line in STORES for kind in line.kinds}
_OF_SCHEME = {scheme: line.module for line in STORES for scheme in line.schemes}

# A scheme has at least two letters, because a single letter is a Windows drive. "::" joins several fsspec file systems
# into one URL.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+)(?:://|::)|(file|local):", re.IGNORECASE)


@cache
def _class_in(module: str) -> type[Store]:
    with needed("fsspec"):
        found: type[Store] = import_module(module).STORE
    return found


@cache
def store_class(kind: str) -> type[Store]:
    """The store of sources of this kind."""
    return _class_in(_OF_KIND[kind])


def store_of(source: Source) -> tuple[Store, str]:
    """The store of a source, and the path of the source in that store."""
    return store_class(source.kind).of(source)


def is_url(text: str) -> bool:
    return _URL.match(text) is not None


def of_text(text: str, storage_options: Mapping[str, Any]) -> Source:
    """The source of a path or URL."""
    match = _URL.match(text) if ":" in text else None
    scheme = "" if match is None else "*" if "::" in text else (match[1] or match[2]).lower()
    found = _class_in(_OF_SCHEME.get(scheme) or _OF_SCHEME["*"]).describe(text, storage_options)
    assert found is not None, "a store class has to accept the schemes that the table lists for it"
    return found


def of_object(given: object) -> Source | None:
    """The source of an object of a store's library, such as an open file. None for all other objects."""
    return next((found for store in _stores_of(given) if (found := store.describe(given, {})) is not None), None)


def in_filesystem(text: str, filesystem: object) -> Source:
    """The source of a path in a file system object."""
    for store in _stores_of(filesystem):
        if (found := store.in_filesystem(text, filesystem)) is not None:
            return found
    raise TypeError(
        f"a {type(filesystem).__name__} is not a file system; give a file system of fsspec, pyarrow.fs or obstore"
    )


def _stores_of(value: object) -> list[type[Store]]:
    """The stores to which an object may belong, by the module of its class. If a tuple is given, such as a file system
    and a path, the first item of the tuple decides."""
    if isinstance(value, tuple) and value:
        value = value[0]
    modules = {f"{cls.__module__}." for cls in type(value).__mro__}
    return [
        _class_in(line.module)
        for line in STORES
        if line.library is not None and any(module.startswith(line.library + ".") for module in modules)
    ]
