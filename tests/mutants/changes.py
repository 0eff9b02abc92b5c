"""Makes small wrong changes in the functions of a module. Each change is one mutant."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["Mutant", "first_line", "mutants_of"]

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_CALLS = {"any": "all", "all": "any", "min": "max", "max": "min"}
Change = Callable[[ast.AST], ast.AST]
_Functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class Mutant:
    """One change. ``unit``: the first line of the outermost function that contains the change."""

    module: str
    function: str
    unit: int
    line: int
    kind: str
    before: str
    after: str
    source: ast.Module
    place: ast.AST
    change: Change

    @property
    def name(self) -> str:
        """The mutant's name, which does not depend on line numbers: ``module: function: before -> after``."""
        return f"{self.module}: {self.function}: {self.before} -> {self.after}"

    def tree(self) -> ast.Module:
        """The whole module with the change."""
        changed = copy.deepcopy(self.source)
        place = next(b for a, b in zip(ast.walk(self.source), ast.walk(changed)) if a is self.place)
        wrong = self.change(place)
        if wrong is not place:
            changed = _Replaced(place, wrong).visit(changed)
        return ast.fix_missing_locations(changed)


def mutants_of(module: str, source: str) -> Iterator[Mutant]:
    """Yields every mutant of the functions of a module. Annotations, docstrings, defaults and decorators are not
    changed."""
    tree = ast.parse(source)
    for names, unit, node in _inside_functions(tree):
        for kind, change in _changes(node):
            yield Mutant(
                module=module,
                function=".".join(names),
                unit=unit,
                line=getattr(node, "lineno", 0),
                kind=kind,
                before=_text(node),
                after=_text(change(copy.deepcopy(node))),
                source=tree,
                place=node,
                change=change,
            )


def _text(node: ast.AST) -> str:
    return ast.unparse(node).split("\n")[0]


class _Replaced(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old = old
        self.new = new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def _inside_functions(tree: ast.Module) -> Iterator[tuple[list[str], int, ast.AST]]:
    def below(node: ast.AST, names: list[str], unit: int) -> Iterator[tuple[list[str], int, ast.AST]]:
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                yield from below(inner, [*names, node.name], unit)
        elif isinstance(node, _Functions):
            name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
            body = [node.body] if isinstance(node, ast.Lambda) else _without_docstring(node.body)
            for part in body:
                yield from below(part, [*names, name], unit or first_line(node))
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                yield from below(node.value, names, unit)
        elif not isinstance(node, ast.expr_context | ast.JoinedStr):
            if unit:
                yield names, unit, node
            for inner in ast.iter_child_nodes(node):
                yield from below(inner, names, unit)

    for node in tree.body:
        yield from below(node, [], 0)


def first_line(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> int:
    """Returns the first line of a function as in its code object: the line of its first decorator, if there is one."""
    return min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return body[1:]
    return body


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    if isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            yield "comparison", lambda n, at=at, op=op: _with_op(n, at, _COMPARISONS[type(op)]())  # type: ignore[misc]
    elif isinstance(node, ast.BoolOp):
        yield "and/or", lambda n: _with(n, op=ast.And() if isinstance(node.op, ast.Or) else ast.Or())
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _OPERATORS:
        yield "operator", lambda n: _with(n, op=_OPERATORS[type(node.op)]())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert):
        yield "not", lambda n: n.operand  # type: ignore[attr-defined]
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int):
        wrong = (not node.value) if isinstance(node.value, bool) else node.value + 1
        yield "constant", lambda n: _with(n, value=wrong)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        yield "call", lambda n: _with(n, func=ast.Name(_CALLS[node.func.id], ast.Load()))  # type: ignore[attr-defined]
    yield from _changed_statements(node)


def _changed_statements(node: ast.AST) -> Iterator[tuple[str, Change]]:
    if isinstance(node, ast.If | ast.IfExp):
        yield "condition", lambda n: _with(n, test=ast.Constant(False))
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield "return", lambda n: _with(n, value=ast.Constant(None))
    elif (
        isinstance(node, ast.Raise)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
        or (
            isinstance(node, ast.Assign)
            and not any(isinstance(target, ast.Name | ast.Tuple) for target in node.targets)
        )
    ):
        yield "dropped", lambda n: ast.Pass()


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _with(node: ast.AST, **fields: object) -> ast.AST:
    for name, value in fields.items():
        setattr(node, name, value)
    return node


def _with_op(node: ast.AST, at: int, op: ast.cmpop) -> ast.AST:
    node.ops[at] = op  # type: ignore[attr-defined]
    return node
