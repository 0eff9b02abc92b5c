"""Finds the secret parts of storage options and URLs. Secrets are never shown. They are pickled only if the caller
permits it.

Options are dictionaries for other libraries, and there is no complete list of the option names. So this module has a
list of harmless names. Every other option counts as secret. Numbers, booleans and None are harmless under every name.
The password and the query of a URL are secret, because a signed URL has its signature in the query. Query parameters
that name the object or its version are not secret.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["WithSecrets", "has_secrets", "secret_names", "shown", "with_secrets", "without_secrets"]

_HIDDEN = "…"
_HARMLESS = frozenset(
    """access account account_name acl addressing_style allow_http api_version auto_mkdir blocksize bucket bucket_name
    cache_storage cache_type client_kwargs cloud compression connect_timeout consistency container container_name
    default_acl default_location default_region encoding endpoint endpoint_override endpoint_url host hostname language
    load_frequency location location_mode max_retries mode multiprocessing_mode path prefix profile profile_name
    project protocol region region_name requester_pays retries_mode role_arn scheme server service_name session_name
    signature_version skip_signature storage_class target_protocol timeout tls_ca_file_path url user user_agent
    user_project username verify virtual_hosted_style_request root base_path retry_strategy
    """.split()  # noqa: SIM905
)
_WHICH_OBJECT = frozenset(
    """alt comp date day dl download file fmt format generation id name number page part path raw restype snapshot
    version versionid year""".split()  # noqa: SIM905
)
_WITHOUT_QUERY = frozenset(("file", "gcs", "gs", "hdfs", "local", "memory", "oss", "s3", "s3a", "s3n", "viewfs"))
"""Schemes of URLs in which a question mark is part of the name."""
_URL_IN_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+://[^\s'\"<>]+")


class WithSecrets(dict[str, Any]):
    """Storage options that may be pickled. They are returned by ``with_secrets``."""


def with_secrets(storage_options: Mapping[str, Any] | None = None) -> WithSecrets:
    """Storage options that are pickled with their secrets.

    A scan, file, table or split that is opened with keys, tokens or a signed URL cannot be pickled. So secrets do not
    get into a queue, a log or a file by accident. The pickle does not need the secrets if each machine has its own
    credentials, for example in its environment. Otherwise this function permits secrets in the pickle.

    Parameters
    ----------
    storage_options : dict, optional
        Options of the storage library, as for ``orcidx.open``. None for a file system object or a signed URL.

    Returns
    -------
    WithSecrets
        The same options, to be passed as ``storage_options=``.

    Examples
    --------
    >>> import orcidx, pickle
    >>> options = orcidx.with_secrets({"key": "k", "secret": "s"})
    >>> source = orcidx.storage.describe_source("s3://bucket/a.orc", storage_options=options)
    >>> pickle.loads(pickle.dumps(source)) == source
    True
    """
    return WithSecrets(storage_options or {})


def secret_names(value: object, name: str = "") -> list[str]:
    """The dotted names of options that may be secret."""
    return sorted(dict.fromkeys(_secrets(value, name, frozenset())))


def _secrets(value: object, name: str, inside: frozenset[int]) -> Iterator[str]:
    if value is None or isinstance(value, (bool, int, float)) or id(value) in inside:
        return
    inside = inside | {id(value)}
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _secrets(one, f"{name}.{key}" if name else str(key), inside)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for one in value:
            yield from _secrets(one, name, inside)
    elif isinstance(value, (str, bytes)):
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        if text and (has_secrets(text) if _is_harmless(name) else True):
            yield name
    elif (options := _options_of(value)) is not None:
        yield from _secrets(options, name, inside)
    elif not _is_harmless(name):
        yield name


def _is_harmless(name: str) -> bool:
    last = name.rpartition(".")[2].lower().replace("-", "_")
    return re.sub("^(aws|google|azure)_", "", last) in _HARMLESS


def _options_of(filesystem: Any) -> object:
    """The options with which a file system object of fsspec, pyarrow or obstore was created. None for other objects."""
    library = type(filesystem).__module__.partition(".")[0]
    if hasattr(filesystem, "storage_args") and hasattr(filesystem, "storage_options"):  # fsspec
        return {"url": list(filesystem.storage_args), **filesystem.storage_options}
    if type(filesystem).__name__ == "PyFileSystem":  # its options are not known, because its class is the caller's
        return {}
    if library == "pyarrow":
        made_of = filesystem.__reduce__()[1]
        return [{"path": one} if isinstance(one, str) else one for one in made_of]
    if library == "obstore" or hasattr(filesystem, "__getnewargs_ex__"):
        positional, named = filesystem.__getnewargs_ex__()
        return {"url": list(positional), **named}
    return None


def has_secrets(url: str) -> bool:
    """Whether a URL has a password, or a query that may be secret."""
    return shown(url) != url


def shown(url: str) -> str:
    """A URL without its secrets, for messages. A path is returned unchanged."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        return url
    if "::" in rest:  # a chain of file systems
        first, chained, others = rest.partition("::")
        return f"{shown(scheme + mark + first)}{chained}{shown(others)}"
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    if at and ":" in user:
        user = f"{user.partition(':')[0]}:{_HIDDEN}"
    path, question, query = f"{user}{at}{host}{slash}{path}".partition("?")
    if question and scheme.rpartition("::")[2].lower() not in _WITHOUT_QUERY:
        query = "&".join(map(_shown_parameter, query.split("&")))
    return f"{scheme}{mark}{path}{question}{query}"


def _shown_parameter(text: str) -> str:
    name, equals, value = text.partition("=")
    if not equals or urllib.parse.unquote(name).lower() in _WHICH_OBJECT or (value.isdigit() and len(value) <= 10):
        return text
    return f"{name}={_HIDDEN}" if value else text


def without_secrets(text: str) -> str:
    """The message of a library, without the secrets of the URLs in it."""
    return _URL_IN_TEXT.sub(lambda match: shown(match[0]), text)
