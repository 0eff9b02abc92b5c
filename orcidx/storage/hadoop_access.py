"""Reads the files of a session's Hadoop file systems in a Spark task, without a JVM. Uses the installed Python
libraries with the settings of the session.

=================================  =====================================================================================
``s3a://``                         s3fs, or else obstore, with the settings ``fs.s3a.*`` of the bucket
``hdfs://``                        Hadoop's library (libhdfs) if the environment names it, or else WebHDFS
others                             no library: Spark passes whole files to tasks (``orcidx.spark.jobs.whole_files``)
=================================  =====================================================================================
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from orcidx.errors import StorageError, Unsupported
from orcidx.extras import installed
from orcidx.storage.stores import Source, in_filesystem

__all__ = ["HdfsAccess", "NoAccess", "S3Access"]

_LIBHDFS = ("ARROW_LIBHDFS_DIR", "HADOOP_HOME", "HADOOP_COMMON_HOME")


@dataclass(frozen=True)
class S3Access:
    """Reads a bucket. If the settings have no keys, AWS's default chain finds the credentials, as in Hadoop itself."""

    bucket: str
    endpoint: str | None = None
    region: str | None = None
    key: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    path_style: bool = False
    anonymous: bool = False

    @property
    def shown(self) -> str:
        return "s3fs" if installed("s3fs") else "obstore"

    @property
    def problem(self) -> str | None:
        """The reason why tasks cannot use this library. None if they can use it."""
        if installed("s3fs") or installed("obstore"):
            return None
        return "neither s3fs nor obstore is installed: python -m pip install s3fs, on the executors as well"

    def source(self, url: str) -> Source:
        key = url.partition("://")[2].partition("/")[2]
        if installed("s3fs"):
            return in_filesystem(f"{self.bucket}/{key}", self._s3fs)
        return in_filesystem(key, self._obstore)

    @cached_property
    def _s3fs(self) -> Any:
        import s3fs  # type: ignore[import-untyped]

        client: dict[str, Any] = {} if self.region is None else {"region_name": self.region}
        return s3fs.S3FileSystem(
            anon=self.anonymous,
            key=self.key,
            secret=self.secret,
            token=self.token,
            endpoint_url=self.endpoint,
            client_kwargs=client,
            config_kwargs={"s3": {"addressing_style": "path" if self.path_style else "auto"}},
        )

    @cached_property
    def _obstore(self) -> Any:
        from obstore.store import S3Store

        config: dict[str, Any] = {
            "access_key_id": self.key,
            "secret_access_key": self.secret,
            "session_token": self.token,
            "endpoint": self.endpoint,
            "region": self.region,
        }
        given = {name: value for name, value in config.items() if value is not None}
        plain = self.endpoint is not None and self.endpoint.startswith("http:")
        return S3Store(
            self.bucket,
            **given,
            virtual_hosted_style_request=not self.path_style,
            skip_signature=self.anonymous,
            client_options={"allow_http": plain},
        )


@dataclass(frozen=True)
class HdfsAccess:
    """Reads from a namenode or a nameservice. ``web``: host and port of WebHDFS. None if WebHDFS cannot be used.
    ``why``: the reason why WebHDFS cannot be used. ``user``: the user's name for simple authentication."""

    authority: str
    user: str
    web: tuple[str, int] | None = None
    why: str | None = None

    @property
    def shown(self) -> str:
        return "libhdfs" if self._has_library or self.web is None else f"WebHDFS at {self.web[0]}:{self.web[1]}"

    @property
    def problem(self) -> str | None:
        return None if self._has_library or self.web is not None else self.why

    @property
    def _has_library(self) -> bool:
        return any(os.environ.get(name) for name in _LIBHDFS)

    def source(self, url: str) -> Source:
        path = "/" + url.partition("://")[2].partition("/")[2]
        return in_filesystem(path, self._filesystem)

    @cached_property
    def _filesystem(self) -> Any:
        """The file system of the namenode. If the environment names Hadoop's library, that library is tried first,
        because it supports Kerberos and nameservices."""
        lost: OSError | None = None
        if self._has_library:
            from pyarrow.fs import HadoopFileSystem

            host, _, port = self.authority.partition(":")
            try:
                return HadoopFileSystem(host or "default", int(port or 0), user=self.user)
            except OSError as error:
                lost = error
        if self.web is None:
            why = f"Hadoop's library cannot be used ({lost})" if lost is not None else self.why
            raise StorageError(f"{why}", file=f"hdfs://{self.authority}") from lost
        from fsspec.implementations.webhdfs import WebHDFS

        return WebHDFS(self.web[0], self.web[1], user=self.user)


@dataclass(frozen=True)
class NoAccess:
    """A file system that only Hadoop can read."""

    scheme: str

    @property
    def shown(self) -> str:
        return "nothing"

    @property
    def problem(self) -> str | None:
        return (
            f"tasks cannot read {self.scheme}:// by themselves: if fsspec supports {self.scheme}://, give "
            "storage_options="
        )

    def source(self, url: str) -> Source:
        raise Unsupported(self.problem or "", file=url)
