"""How fast is a scan of lineitem, with some or all columns, with threads, with conditions, and for the first rows?"""

import orcidx
from benchmarks import lineitem

SCALE = 0.05


class Lineitem:
    params = (["none", "zstd", "zlib"],)
    param_names = ("codec",)

    def setup(self, codec: str) -> None:
        self.path = str(lineitem.orc(SCALE, codec, spark=False))

    def time_all_columns(self, codec: str) -> None:
        with orcidx.open(self.path) as file:
            file.read(use_threads=False)

    def time_all_columns_threads(self, codec: str) -> None:
        with orcidx.open(self.path) as file:
            file.read()

    def time_two_columns(self, codec: str) -> None:
        with orcidx.open(self.path) as file:
            file.read(columns=["l_orderkey", "l_extendedprice"], use_threads=False)

    def time_selective(self, codec: str) -> None:
        with orcidx.open(self.path) as file:
            file.read(where="l_quantity = 7 AND l_discount > 0.08", use_threads=False)

    def time_keep_everything(self, codec: str) -> None:
        with orcidx.open(self.path) as file:
            file.read(where="l_orderkey >= 0", use_threads=False)

    def time_text_of_a_dictionary(self, codec: str) -> None:
        with orcidx.open(self.path) as file:
            file.read(columns=["l_orderkey", "l_partkey"], where="l_shipmode = 'AIR'", use_threads=False)

    def time_count_text_of_a_dictionary(self, codec: str) -> None:
        with orcidx.open(self.path) as file:
            file.scan(where="l_shipmode = 'AIR'", use_threads=False).count_rows()

    def time_count_dates(self, codec: str) -> None:
        with orcidx.open(self.path) as file:
            file.scan(where="l_shipdate <= date '1998-09-02'", use_threads=False).count_rows()

    def time_first_rows(self, codec: str) -> None:
        with orcidx.open(self.path) as file:
            file.scan().head(10)

    def time_count(self, codec: str) -> None:
        with orcidx.open(self.path) as file:
            file.scan(where="l_orderkey >= 0").count_rows()
