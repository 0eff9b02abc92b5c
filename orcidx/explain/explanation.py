"""``Explanation``: the result of ``Scan.explain``, which can be shown as text and as a page."""

from __future__ import annotations

from dataclasses import dataclass

from orcidx.explain.model import ExplainedScan

__all__ = ["Explanation"]


@dataclass(frozen=True)
class Explanation(ExplainedScan):
    """An explanation of what a scan will read, and by which evidence the rest is skipped. Made by ``Scan.explain``.

    ``where`` is the predicate as text, or None without a predicate. ``columns`` are the columns that are read.

    Examples
    --------
    >>> import orcidx, pyarrow as pa
    >>> _ = orcidx.write_table(pa.table({"id": [1, 2, 3]}), "ids.orc")
    >>> plan = orcidx.scan("ids.orc", where=orcidx.col("id") > 5).explain()
    >>> plan.skipped_by
    {'file statistics': 3}
    >>> plan.funnel[0]
    Stage(name='files', before=1, after=0, of='all files')
    """

    # The modules that make texts and pages are imported when they are needed, because most scans are not explained.

    def to_html(self) -> str:
        """A self-contained page with the pruning map.

        Returns
        -------
        str
            HTML.
        """
        from orcidx.explain.page import explanation_page

        return explanation_page(self)

    def __str__(self) -> str:
        from orcidx.explain.render import explanation_text

        return explanation_text(self)

    def _repr_html_(self) -> str:
        from orcidx.explain.render import explanation_html

        return explanation_html(self)
