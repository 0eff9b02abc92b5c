"""Paths in the Hadoop file systems of a Spark session, with its settings and credentials.

``reached`` converts a path to a form that the rest of orcidx reads: a local path, a URL that only fsspec supports, or a
source in the session's file systems. ``shipped`` prepares the function of a job for tasks. It adds the information that
the tasks need to reach the same files."""

from __future__ import annotations

import errno
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from orcidx.errors import StorageError, Unsupported
from orcidx.spark.sessions.compiled_java import made
from orcidx.spark.sessions.served import ITEM, PIECE_BYTES, items_of, parts_of, served_bytes, text_from_java
from orcidx.spark.sessions.spark_session import is_connect
from orcidx.spark.types.argument_types import JavaObject, OnePath, Paths
from orcidx.storage import Fingerprint, Source
from orcidx.storage.fingerprint import plain_etag
from orcidx.storage.hadoop_access import HdfsAccess, NoAccess, S3Access
from orcidx.storage.hadoop_store import AccessByAuthority, FileAccess, TaskFiles, authority_of, hadoop_source, install
from orcidx.storage.stores import Found

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

__all__ = ["SessionFiles", "access_notes", "access_problem", "reached", "shipped", "sources_in_session"]

BatchTask: TypeAlias = "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):(?=/)")
_NOT_HADOOP = frozenset({"file", "local", "http", "https", "ftp", "memory"})
"""Schemes that orcidx reads by itself, even if Hadoop could read them."""
_NO_HDFS_ACCESS = (
    "tasks cannot reach HDFS: set dfs.namenode.http-address (spark.hadoop.dfs.namenode.http-address) for WebHDFS, or "
    "HADOOP_HOME and CLASSPATH on the executors for Hadoop's own library"
)


class SessionFiles:
    """The Hadoop file systems of a session. They are used by calls to the session's JVM, with the current settings. An
    object of this class is pickled as ``TaskFiles``."""

    def __init__(self, spark: SparkSession) -> None:
        session = spark._jsparkSession
        self._java = made(spark.sparkContext._gateway, "HadoopFiles", session.sessionState().newHadoopConf())
        self.name = f"{spark.sparkContext.applicationId} {session.sessionUUID()}"
        self._context = spark.sparkContext
        self.token = uuid.uuid4().hex
        self._accesses: dict[str, FileAccess] = {}

    def knows(self, scheme: str) -> bool:
        return bool(self._java.knows(scheme))

    def qualified(self, path: str) -> str:
        with _sentences(path):
            return str(self._java.qualified(path))

    def columns(self, listed: JavaObject) -> str:
        """Converts Spark's listing, a sequence of Hadoop's statuses, to paths, sizes, times and tags
        (``listing_of``)."""
        return text_from_java(self._java.columns(listed))

    def list(self, url: str) -> list[Found]:
        with _sentences(url):
            text = text_from_java(self._java.list(url))
        return [_found(line) for line in text.split(ITEM)] if text else []

    def status(self, url: str) -> Found | None:
        with _sentences(url):
            line = self._java.status(url)
        if line == "/":
            raise IsADirectoryError(21, "the path is a directory, but a file is expected", url)
        return _found(line) if line else None

    def read(self, url: str, offset: int, length: int, *, size: int | None) -> bytes:
        known = -1 if size is None else size
        with _sentences(url):
            if length <= PIECE_BYTES:
                return bytes(self._java.read(url, offset, length, known))
            return served_bytes(lambda password: self._java.serve(url, offset, length, known, password))

    def write(self, url: str, data: bytes, how: str, temporary: str | None) -> bool:
        with _sentences(url):
            return bool(self._java.write(url, bytearray(data), how, temporary))

    def rename(self, url: str, to: str) -> None:
        with _sentences(url):
            if not self._java.rename(url, to):
                raise StorageError(f"the file cannot be renamed to {to}", file=url)

    def delete(self, url: str) -> None:
        with _sentences(url):
            self._java.delete(url)

    def make_directory(self, url: str) -> None:
        with _sentences(url):
            self._java.makeDirectory(url)

    def refuses_second(self, url: str) -> bool:
        with _sentences(url):
            return bool(self._java.refusesSecond(url))

    def in_tasks(self, url: str) -> Source | None:
        access = self.access(url)
        return None if access.problem is not None else access.source(url)

    def access(self, url: str) -> FileAccess:
        """Returns the library and the settings with which tasks read a URL."""
        key = authority_of(url)
        if key not in self._accesses:
            scheme, _, authority = key.partition("://")
            self._accesses[key] = self._access_of(scheme, authority)
        return self._accesses[key]

    def broadcast(self, urls: Iterable[str]) -> Broadcast[AccessByAuthority]:
        """Broadcasts the information that tasks need to reach some URLs. A broadcast is not part of a job's plan. Spark
        broadcasts its own Hadoop settings in the same way."""
        return self._context.broadcast(AccessByAuthority({authority_of(url): self.access(url) for url in urls}))

    def _access_of(self, scheme: str, authority: str) -> FileAccess:
        if scheme in ("s3a", "s3", "s3n"):
            return self._s3(authority)
        return self._hdfs(authority) if scheme == "hdfs" else NoAccess(scheme)

    def _setting(self, *names: str) -> str | None:
        with _sentences(names[0]):
            return next((str(found) for name in names if (found := self._java.setting(name))), None)

    def _s3(self, bucket: str) -> S3Access:
        def setting(name: str) -> str | None:
            return self._setting(f"fs.s3a.bucket.{bucket}.{name}", f"fs.s3a.{name}")

        endpoint = setting("endpoint")
        if endpoint is not None and "://" not in endpoint:
            plain = setting("connection.ssl.enabled") == "false"
            endpoint = None if endpoint == "s3.amazonaws.com" else f"{'http' if plain else 'https'}://{endpoint}"
        return S3Access(
            bucket=bucket,
            endpoint=endpoint,
            region=setting("endpoint.region"),
            key=setting("access.key"),
            secret=setting("secret.key"),
            token=setting("session.token"),
            path_style=setting("path.style.access") == "true",
            anonymous="Anonymous" in (setting("aws.credentials.provider") or ""),
        )

    def _hdfs(self, authority: str) -> HdfsAccess:
        user = str(self._java.user())
        if self._java.isSecure():
            why = (
                "with Kerberos, tasks can reach HDFS only with Hadoop's own library: set HADOOP_HOME and CLASSPATH on "
                "the executors"
            )
            return HdfsAccess(authority, user, why=why)
        address = self._setting("dfs.namenode.http-address")
        nodes = self._setting(f"dfs.ha.namenodes.{authority}")
        if nodes is not None:
            first = nodes.split(",")[0].strip()
            address = self._setting(f"dfs.namenode.http-address.{authority}.{first}")
        if address is None:
            return HdfsAccess(authority, user, why=_NO_HDFS_ACCESS)
        host, _, port = address.rpartition(":")
        if host in ("", "0.0.0.0"):  # Hadoop's default, which means the namenode's own host
            host = authority.partition(":")[0]
        return HdfsAccess(authority, user, (host, int(port)))

    def __reduce__(self) -> tuple[Any, ...]:
        return TaskFiles, (self.token,)


def _found(line: str) -> Found:
    path, size, millis, etag = parts_of(line, 4)
    tag = plain_etag(items_of(etag)[0])
    return Found(items_of(path)[0], Fingerprint(int(size), tag, int(millis) * 1_000_000))


@contextmanager
def _sentences(url: str) -> Iterator[None]:
    """Raises the error that corresponds to a Java exception. Its message is one sentence."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    try:
        yield
    except Py4JJavaError as error:
        raise _translated(error.java_exception, url) from None


def _translated(thrown: JavaObject, url: str) -> Exception:
    names: set[str] = set()
    link = thrown
    while link is not None and len(names) < 20:
        names.add(type_of(link))
        link = link.getCause()
    text = next(iter(str(thrown.getMessage() or thrown.toString()).splitlines()), "").strip()[:500]
    if names & {"FileNotFoundException", "NoSuchFileException"}:
        return FileNotFoundError(errno.ENOENT, "no such file", url)
    if names & {"AccessControlException", "AccessDeniedException"}:
        return PermissionError(errno.EACCES, f"access denied by the session's Hadoop file system: {text}", url)
    if names & {"ConnectException", "SocketTimeoutException", "ConnectTimeoutException", "NoRouteToHostException"}:
        return StorageError(f"the session's Hadoop file system cannot be reached: {text}", file=url)
    return StorageError(f"the session's Hadoop file system failed: {type_of(thrown)}: {text}", file=url)


def type_of(thrown: JavaObject) -> str:
    return str(thrown.getClass().getSimpleName())


def reached(
    spark: SparkSession | None, path: OnePath, storage_options: Mapping[str, Any] | None = None
) -> OnePath | Source:
    """Converts a path to the form in which orcidx reads it. A path in one of the session's Hadoop file systems is
    converted to a source in this file system.

    The path is returned unchanged if the session has no JVM, or if there are ``storage_options``, which are only for
    fsspec.
    """
    if spark is None or storage_options or is_connect(spark) or not isinstance(path, (str, os.PathLike)):
        return path
    return _Finder(spark).source(os.fspath(path))


def sources_in_session(
    spark: SparkSession, path: Paths, storage_options: Mapping[str, Any] | None
) -> Source | list[Source | str] | None:
    """Returns the paths. Each path in one of the session's Hadoop file systems is replaced by a source. Returns None if
    there is no such path."""
    if storage_options or is_connect(spark):
        return None
    finder = _Finder(spark)
    if isinstance(path, (str, os.PathLike)):
        one = finder.source(os.fspath(path))
        return one if isinstance(one, Source) else None
    found = [finder.source(os.fspath(one)) for one in path]
    return found if any(isinstance(one, Source) for one in found) else None


class _Finder:
    """Finds out which paths are in the session's file systems. The file systems are opened when the first such path is
    found."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._files: SessionFiles | None = None

    def source(self, path: str) -> Source | str:
        match = _SCHEME.match(path)
        if match is None:
            if "::" in path or os.path.exists(path) or not self._is_hadoop_default():
                return path
            return hadoop_source(self.files.qualified(path), self.files, name=path)
        scheme = match[1].lower()
        if scheme in _NOT_HADOOP or not self.files.knows(scheme):
            return path
        return hadoop_source(path, self.files)

    @property
    def files(self) -> SessionFiles:
        if self._files is None:
            self._files = SessionFiles(self._spark)
        return self._files

    def _is_hadoop_default(self) -> bool:
        """Whether paths without a scheme belong to a file system other than the local one."""
        default = str(self._spark._jsc.hadoopConfiguration().get("fs.defaultFS") or "file:///")
        return default.partition(":")[0].lower() not in _NOT_HADOOP


@dataclass(frozen=True)
class _WithAccess:
    """For ``mapInArrow``: a function whose sources are in a session's file systems. It has the information that a task
    needs to reach the sources."""

    function: BatchTask
    token: str
    access: Broadcast[AccessByAuthority]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        install(self.token, self.access.value)
        yield from self.function(batches)


def shipped(function: BatchTask, sources: object) -> BatchTask:
    """Prepares the function for tasks that open ``sources`` or files below them.

    Raises ``Unsupported`` if it is known on the driver that tasks cannot reach the sources.
    """
    ours = _in_session(sources)
    if not ours:
        return function
    if (problem := access_problem(ours)) is not None:
        raise Unsupported(problem, file=ours[0].name)
    files: SessionFiles = ours[0].filesystem
    return _WithAccess(function, files.token, files.broadcast(one.location for one in ours))


def access_problem(sources: object) -> str | None:
    """The reason why tasks cannot open ``sources`` themselves. The result is None if no such reason is known on the
    driver."""
    problems = (one.filesystem.access(one.location).problem for one in _in_session(sources))
    return next((one for one in problems if one is not None), None)


def access_notes(sources: object) -> tuple[str, ...]:
    """The note for ``why`` about how tasks open ``sources``. The result is empty if Spark's file systems are not
    involved."""
    shown = dict.fromkeys(one.filesystem.access(one.location).shown for one in _in_session(sources))
    return (f"tasks open the files by {', '.join(shown)}",) if shown else ()


def _in_session(sources: object) -> list[Source]:
    several = sources if isinstance(sources, (list, tuple)) else [sources]
    return [one for one in several if isinstance(one, Source) and isinstance(one.filesystem, SessionFiles)]
