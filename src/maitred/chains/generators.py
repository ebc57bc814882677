"""Which functions with `yield` can return all of their values at once, since they end by themselves."""

import ast
from collections.abc import Iterator, Sequence


def listable(nodes: Sequence[ast.AST]) -> frozenset[str]:
    """The names of generator functions that can be rewritten as functions that fill a list.

    Such a function is only ever called by its name. It has no `**kwargs`, and only yields, without
    receiving values. It has no endless loop without a `break` or `return`.
    """
    methods = {one for node in nodes if isinstance(node, ast.ClassDef) for one in node.body}
    found = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    names = [node.name for node in found]
    called = [
        node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    read = [node.id for node in nodes if isinstance(node, ast.Name)]
    return frozenset(
        node.name
        for node in found
        if _gives(node) and node not in methods and names.count(node.name) == 1
        and read.count(node.name) == called.count(node.name)
    )  # fmt: skip


def yields_of(function: ast.FunctionDef) -> Iterator[ast.Expr]:
    """The statements of a function that yield a value, without those of functions within it."""
    for node in _own(function):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield | ast.YieldFrom):
            yield node


def _gives(function: ast.FunctionDef) -> bool:
    own = list(_own(function))
    yields = [node for node in own if isinstance(node, ast.Yield | ast.YieldFrom)]
    endless = [node for node in own if isinstance(node, ast.While) and isinstance(node.test, ast.Constant)]
    ends = all(any(isinstance(n, ast.Break | ast.Return) for n in ast.walk(one)) for one in endless)
    plain = not function.decorator_list and function.args.kwarg is None
    return bool(yields) and len(list(yields_of(function))) == len(yields) and ends and plain


def _own(function: ast.FunctionDef) -> Iterator[ast.AST]:
    left: list[ast.AST] = list(function.body)
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            left.extend(ast.iter_child_nodes(node))
