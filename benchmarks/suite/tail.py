"""How long does it take to open a file, and to import orcidx?"""

import sys

import orcidx
from benchmarks import lineitem
from benchmarks.columns import DATA
from benchmarks.suite_files import many_row_groups

ROOT = sys.path[-1]


class Open:
    def setup(self) -> None:
        self.lineitem = str(lineitem.orc(0.05, "zstd", spark=False))
        self.many = str(many_row_groups(DATA))

    def time_open(self) -> None:
        orcidx.open(self.lineitem).close()

    def time_schema_and_rows(self) -> None:
        with orcidx.open(self.lineitem) as file:
            _ = file.schema, file.num_rows

    def time_statistics_of_row_groups(self) -> None:
        with orcidx.open(self.many) as file:
            file.statistics_table("row_group")


class Import:
    def timeraw_import(self) -> str:
        return f"import sys; sys.path.append({ROOT!r}); import orcidx"
