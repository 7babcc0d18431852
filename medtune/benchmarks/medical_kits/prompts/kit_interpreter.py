"""Works out from a Python file's source what a function of an evaluation kit would return, without running it.

Only code that puts texts together is understood: conditions, texts with values in them, joined lists, `str` of a text,
and calls of other functions of the same file. Any other code is refused with its line number, because the kit is then
not the one that medtune knows.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, NoReturn

Value = str | bool | None | list["Value"] | Mapping[str, "Value"]
Scope = MutableMapping[str, Value]


class _Returned(NamedTuple):
    value: Value


class KitCode:
    """A Python file of a kit.

    Attributes:
        known: A sentence that says which version of the kit medtune knows and what to do; it ends every refusal.
        given: The values of names that the file imports.
        returned: Fixed results by function name. Such a function is not interpreted; its fixed result is used.
    """

    def __init__(
        self,
        path: Path,
        *,
        known: str,
        given: Mapping[str, Value] | None = None,
        returned: Mapping[str, str] | None = None,
    ) -> None:
        """Reads the file.

        Raises:
            ValueError: The file is not valid Python.
        """
        self.path, self.known, self.given, self.returned = path, known, given or {}, returned or {}
        try:
            body = ast.parse(path.read_text("utf-8")).body
        except (SyntaxError, ValueError) as error:
            raise ValueError(f"{path}: no Python that could be read ({error}). Copy it from the kit again.") from None
        self._functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
        self._assigned = {
            target.id: node.value
            for node in body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def constant(self, name: str) -> str:
        """Returns the text that the file assigns to a name.

        Raises:
            ValueError: The file assigns no text to the name.
        """
        if name not in self._assigned:
            raise ValueError(f"{self.path}: wanted a text {name}, there is none. {self.known}")
        return self._text(self._value(self._assigned[name], {}), self._assigned[name])

    def result(self, name: str, *arguments: Value, **named: Value) -> str:
        """Returns the text that a function would return for these arguments.

        Raises:
            ValueError: There is no such function, it does not return a text, or it contains code that is not
                understood.
        """
        if name not in self._functions:
            raise ValueError(f"{self.path}: wanted a function {name}, there is none. {self.known}")
        function = self._functions[name]
        try:
            return self._text(self._call(function, arguments, function, named), function)
        except RecursionError:
            self._refuse(function)

    def _call(
        self,
        function: ast.FunctionDef,
        arguments: Sequence[Value],
        caller: ast.AST,
        named: Mapping[str, Value] = MappingProxyType({}),
    ) -> Value:
        names = [argument.arg for argument in function.args.args]
        defaults = function.args.defaults
        scope: dict[str, Value] = {
            name: self._value(node, {})
            for name, node in zip(names[len(names) - len(defaults) :], defaults, strict=True)
        }
        scope |= {**dict(zip(names, arguments, strict=False)), **named}
        if len(arguments) > len(names) or set(names) != set(scope):
            self._refuse(caller)
        found = self._run(function.body, scope)
        return found.value if found else None

    def _run(self, body: Sequence[ast.stmt], scope: Scope) -> _Returned | None:
        for statement in body:
            match statement:
                case ast.If(test, then, otherwise):
                    if found := self._run(then if self._value(test, scope) else otherwise, scope):
                        return found
                case ast.Return(value):
                    return _Returned(None if value is None else self._value(value, scope))
                case ast.Assign([ast.Name(name)], ast.expr() as value) | ast.AnnAssign(
                    ast.Name(name), value=ast.expr() as value
                ):
                    scope[name] = self._value(value, scope)
                case ast.AugAssign(ast.Name(name) as target, ast.Add(), value):
                    scope[name] = self._text(self._value(target, scope), target) + self._text(
                        self._value(value, scope), value
                    )
                case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), "append"), [value])):
                    self._list(scope.get(name), statement).append(self._value(value, scope))
                case ast.Expr(ast.Constant()) | ast.Pass():
                    pass
                case _:
                    self._refuse(statement)
        return None

    def _value(self, node: ast.expr, scope: Scope) -> Value:
        match node:
            case ast.Constant(str() | bool() | None as value):
                return value
            case ast.Name(name):
                return self._named(name, scope, node)
            case ast.JoinedStr(parts):
                return "".join(self._text(self._value(part, scope), part) for part in parts)
            case ast.FormattedValue(value, conversion=-1, format_spec=None):
                return str(self._value(value, scope))
            case ast.List(elements):
                return [self._value(element, scope) for element in elements]
            case ast.BoolOp(operator, operands):
                return self._either(isinstance(operator, ast.Or), operands, scope)
            case ast.UnaryOp(ast.Not(), operand):
                return not self._value(operand, scope)
            case ast.IfExp(test, then, otherwise):
                return self._value(then if self._value(test, scope) else otherwise, scope)
            case ast.Compare(left, [operator], [right]):
                return self._compared(self._value(left, scope), operator, self._value(right, scope), node)
            case ast.BinOp(left, ast.Add(), right):
                return self._text(self._value(left, scope), left) + self._text(self._value(right, scope), right)
            case ast.Subscript(of, key):
                return self._cell(self._value(of, scope), self._value(key, scope), node)
            case ast.GeneratorExp(each, [loop]) | ast.ListComp(each, [loop]):
                return self._each(each, loop, scope)
            case ast.Call(ast.Name(name), arguments, []) if name in self.returned:
                return self.returned[name]
            case ast.Call(ast.Name(name), arguments, []) if name in self._functions:
                return self._call(self._functions[name], [self._value(each, scope) for each in arguments], node)
            case ast.Call(ast.Name("str"), [argument], []):
                return self._text(self._value(argument, scope), argument)
            case ast.Call(ast.Attribute(of, method), arguments, []):
                return self._method(
                    self._value(of, scope), method, [self._value(each, scope) for each in arguments], node
                )
        return self._refuse(node)

    def _named(self, name: str, scope: Scope, node: ast.AST) -> Value:
        for known in (scope, self.given):
            if name in known:
                return known[name]
        if name in self._assigned:
            return self._value(self._assigned[name], {})
        return self._refuse(node)

    def _cell(self, of: Value, key: Value, node: ast.AST) -> Value:
        if isinstance(of, Mapping) and isinstance(key, str) and key in of:
            return of[key]
        return self._refuse(node)

    def _either(self, is_or: bool, operands: Sequence[ast.expr], scope: Scope) -> Value:
        found: Value = None
        for operand in operands:
            found = self._value(operand, scope)
            if bool(found) == is_or:
                break
        return found

    def _each(self, each: ast.expr, loop: ast.comprehension, scope: Scope) -> Value:
        if not isinstance(loop.target, ast.Name):
            self._refuse(loop.target)
        name, found = loop.target.id, list[Value]()
        for item in self._list(self._value(loop.iter, scope), loop.iter):
            inner = {**scope, name: item}
            if all(self._value(test, inner) for test in loop.ifs):
                found.append(self._value(each, inner))
        return found

    def _compared(self, left: Value, operator: ast.cmpop, right: Value, node: ast.AST) -> bool:
        match operator:
            case ast.Eq() | ast.Is():
                return left == right
            case ast.NotEq() | ast.IsNot():
                return left != right
            case ast.In() | ast.NotIn() if isinstance(right, list):
                return (left in right) == isinstance(operator, ast.In)
        return self._refuse(node)

    def _method(self, of: Value, method: str, arguments: Sequence[Value], node: ast.AST) -> Value:
        match of, method, arguments:
            case Mapping(), "get", [str(name), *default] if len(default) < 2:
                return of.get(name, default[0] if default else None)
            case str(), "join", [list(parts)]:
                return of.join(self._text(part, node) for part in parts)
        return self._refuse(node)

    def _text(self, value: Value, node: ast.AST) -> str:
        return value if isinstance(value, str) else self._refuse(node)

    def _list(self, value: Value, node: ast.AST) -> list[Value]:
        return value if isinstance(value, list) else self._refuse(node)

    def _refuse(self, node: ast.AST) -> NoReturn:
        line = getattr(node, "lineno", 0)
        raise ValueError(
            f"{self.path}: line {line} is not understood: {ast.unparse(node).splitlines()[0]}. {self.known}"
        )
