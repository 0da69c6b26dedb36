"""A function has at most 70 lines, from its head to its closing brace."""
import ast

LIMIT = 70


def check(tree):
    for name in tree.cpp():
        for line, lines in tree.functions(name):
            if lines > LIMIT:
                yield name, line, f"a function of {lines} lines, at most {LIMIT}"
    for name in tree.under("tools/", "models/", "benchmarks/", "tests/", ends=(".py",)):
        for node in ast.walk(ast.parse(tree.text(name))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno - node.lineno >= LIMIT:
                yield name, node.lineno, f"a function of {node.end_lineno - node.lineno + 1} lines, at most {LIMIT}"


BODY = "  work();\n" * 69
PLANTS = [
    ({"src/ir/f.cpp": "// F.\nnamespace peri {\nint f(int a,\n      int b) {\n" + BODY + "}\n}\n"}, "src/ir/f.cpp"),
    ({"src/ir/f.cpp": "// F.\nstruct S {\n  S() : a_{1} {\n" + BODY + "  }\n};\n"}, "src/ir/f.cpp"),
    ({"src/ir/f.cpp": "// F.\nconst Entry e{.f = [](int a) {\n" + BODY + "}};\n"}, "src/ir/f.cpp"),
    ({"src/ir/f.cpp": "// F.\nGET(a, b)\nGET(c, d)\nint f() {\n" + BODY + "}\n"}, "src/ir/f.cpp"),
    ({"tools/f.py": '"""F."""\ndef f():\n' + "    work()\n" * 70}, "tools/f.py"),
]
