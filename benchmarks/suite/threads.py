"""How much faster are two threads on lineitem, compared with two processes that read half of the rows each?"""

import pyarrow as pa

from benchmarks import lineitem
from benchmarks.threads import COLUMNS, Processes, read

SCALE = 0.2


class Threads:
    params = (list(COLUMNS), ["table", "batches"])
    param_names = ("columns", "form")

    def setup(self, columns: str, form: str) -> None:
        self.path = str(lineitem.orc(SCALE, "zstd", spark=False))
        self.columns = COLUMNS[columns]
        self.before = pa.cpu_count()
        pa.set_cpu_count(2)
        self.processes = Processes()

    def teardown(self, columns: str, form: str) -> None:
        self.processes.close()
        pa.set_cpu_count(self.before)

    def time_one_thread(self, columns: str, form: str) -> None:
        read(self.path, self.columns, form, threads=False)

    def time_two_threads(self, columns: str, form: str) -> None:
        read(self.path, self.columns, form, threads=True)

    def time_two_processes(self, columns: str, form: str) -> None:
        self.processes.read(self.path, self.columns, form)
