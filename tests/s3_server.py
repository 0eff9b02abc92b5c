"""An S3 server on loopback (moto, in this process), and access to it with several libraries."""

from __future__ import annotations

import logging
import threading
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

KEY = {"key": "k", "secret": "s"}
"""The credentials for s3fs."""


class RequestLog:
    """A WSGI wrapper that notes the object requests: (method, key, one header).

    Write requests run one at a time, because moto checks conditions and then writes, and S3 does both in one step.
    ``refuse`` is a function of a request's path and query. It returns the error with which the request is answered,
    such as "403 AccessDenied" or "400 ExpiredToken", or None. ``sent``: bytes of all answers.
    """

    def __init__(self, app: Any, bucket: str, header: str) -> None:
        self.app = app
        self.requests: list[tuple[str, str, str | None]] = []
        self._prefix = f"/{bucket}/"
        self._writing = threading.Lock()
        self._header = header
        self.refuse: Callable[[str], str | None] | None = None
        self.sent = 0

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        key = environ["PATH_INFO"].removeprefix(self._prefix)
        self.requests.append((environ["REQUEST_METHOD"], key, environ.get(self._header)))
        asked = urllib.parse.unquote_plus(f"{environ['PATH_INFO']}?{environ.get('QUERY_STRING', '')}")
        if self.refuse is not None and (error := self.refuse(asked)) is not None:
            status, _, code = error.partition(" ")
            start_response(f"{status} refused", [("Content-Type", "application/xml")])
            return [f"<Error><Code>{code}</Code><Message>{code} of this test</Message></Error>".encode()]
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return self._counted(self.app(environ, start_response))
        with self._writing:
            return self.app(environ, start_response)

    def _counted(self, answer: Iterable[bytes]) -> Iterator[bytes]:
        for part in answer:
            self.sent += len(part)
            yield part


@contextmanager
def s3_server(bucket: str, header: str = "HTTP_RANGE") -> Iterator[tuple[str, RequestLog]]:
    """Yields the endpoint of a server without buckets, and the log of requests to ``bucket``."""
    from moto import server as moto_server
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    log = RequestLog(moto_server.DomainDispatcherApplication(moto_server.create_backend_app), bucket, header)
    server = make_server("127.0.0.1", 0, log, threaded=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", log
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@contextmanager
def s3_bucket(bucket: str, header: str = "HTTP_RANGE") -> Iterator[tuple[dict[str, Any], RequestLog]]:
    """Yields fsspec's options for a server with an empty bucket, and the log of requests to the bucket."""
    import s3fs

    with s3_server(bucket, header) as (endpoint, log):
        options = {"endpoint_url": endpoint, **KEY}
        s3fs.S3FileSystem(**options).call_s3("create_bucket", Bucket=bucket)
        yield options, log


def obstore_of(endpoint: str, bucket: str, **config: Any) -> Any:
    """Returns the bucket as an obstore store without retries. ``config``: further settings of the store."""
    from obstore import store

    return store.S3Store(
        bucket,
        endpoint=endpoint,
        access_key_id="k",
        secret_access_key="s",
        region="us-east-1",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
        **config,
    )


def arrow_of(endpoint: str) -> Any:
    """Returns the server as a pyarrow file system."""
    from pyarrow import fs

    return fs.S3FileSystem(
        endpoint_override=endpoint.removeprefix("http://"),
        scheme="http",
        access_key="k",
        secret_key="s",
        region="us-east-1",
    )
