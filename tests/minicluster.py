"""HDFS in a JVM of its own: a namenode and a datanode on loopback, with WebHDFS. .ci/fetch-hadoop gets its jars."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_LIBRARIES = ("hadoop-client-api-*", "hadoop-client-runtime-*", "slf4j-api-*", "jcl-over-slf4j-*", "snappy-java-*",
              "istack-commons-*", "jakarta.activation-api-*", "log4j-*")  # fmt: skip
"""Patterns of the jars of pyspark that are used."""


@contextmanager
def minicluster(jars: Path, scratch: Path) -> Iterator[tuple[str, str]]:
    """Yields the URL of the namenode, and host and port of WebHDFS. The user of this process is not the superuser of
    HDFS, so permissions apply to this user. Every user may write to the root directory."""
    import pyspark
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    of_spark = Path(pyspark.__file__).parent / "jars"
    found = [*jars.glob("*.jar"), *(one for name in _LIBRARIES for one in of_spark.glob(f"{name}.jar"))]
    (bridge,) = of_spark.glob("py4j-*.jar")
    java = f"{os.environ['JAVA_HOME']}/bin/java" if "JAVA_HOME" in os.environ else "java"
    port = launch_gateway(
        jarpath=str(bridge),
        classpath=os.pathsep.join(map(str, found)),
        javaopts=["-Xmx500m", f"-Djava.io.tmpdir={scratch}", "-DHADOOP_USER_NAME=superuser"],
        java_path=java,
        die_on_exit=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    jvm: Any = gateway.jvm
    settings = jvm.org.apache.hadoop.conf.Configuration()
    settings.set("dfs.replication", "1")
    builder = getattr(jvm.org.apache.hadoop.hdfs, "MiniDFSCluster$Builder")
    cluster = builder(settings, jvm.java.io.File(str(scratch / "dfs"))).numDataNodes(1).format(True).build()
    try:
        cluster.waitActive()
        everyone = jvm.org.apache.hadoop.fs.permission.FsPermission("777")
        cluster.getFileSystem().setPermission(jvm.org.apache.hadoop.fs.Path("/"), everyone)
        web = cluster.getNameNode().getHttpAddress()
        yield str(cluster.getURI().toString()), f"127.0.0.1:{web.getPort()}"
    finally:
        cluster.shutdown()
        gateway.shutdown()
