"""No operator is known by its name outside what implements it: lowering, tuner, judge, executors and the like ask for a fact of its
OpDef (src/ops/entry.hpp). Where code implements one operator, or writes one down, a comment `// By name: REASON` says so, on the
line or on the one before it."""
import re

PLACES = ("problem", "exec", "bench", "tune", "lower", "backends/cpu", "backends/null", "compile", "judge", "build", "api", "cli", "plan", "runtime")
OP = r"(?<![\w:])(?:\w+(?:\([^()]*\))?(?:\[\w*\])?(?:\.|->))*op\b"
PATTERNS = [
    re.compile(OP + r"\s*[=!]=\s*\""),
    re.compile(r"\"\s*[=!]=\s*" + OP),
    re.compile(OP + r"\.(?:compare|starts_with|ends_with|find|substr)\("),
    re.compile(r"(?<!ops::)\b(?:contains|count|find)\((?:[^()]*,\s*)?(?:\w+(?:\.|->))+op\)"),
]
NAMED = re.compile(r"\.name = \"([a-z_0-9]+)\"|\{\"([a-z_0-9]+)\", \"[A-Z]\w+\"")
EXCUSE = re.compile(r"// By name: \S")


def names(tree):
    """Names of operators, where they are told from other words: two words at least."""
    found = {a or b for f in tree.under("src/ops/", ends=(".cpp",)) for a, b in NAMED.findall(tree.code(f, strings=True))}
    return sorted(n for n in found if "_" in n)


def check(tree):
    compared = re.compile(r"[=!]=\s*\"(?:" + "|".join(names(tree) or ["no_op"]) + r")\"")
    for name in tree.cpp(*(f"src/{p}/" for p in PLACES)):
        lines = tree.text(name).split("\n")
        seen = set()
        for pattern in [*PATTERNS, compared]:
            for line, match in tree.matches(name, pattern, tree.code(name, strings=True)):
                if line in seen or any(EXCUSE.search(text) for text in lines[max(line - 2, 0) : line]):
                    continue
                seen.add(line)
                yield name, line, f"{match[0]}: an operator's name; ask for a fact of its OpDef, or say why with `// By name: ...`"


def _plant(code, module="lower"):
    return ({f"src/{module}/bad.cpp": f"// Bad.\n{code}\n", "LAYERS": f"0 base\n1 ir\n2 ops\n3 {module}\n11 cli\n"}, f"src/{module}/bad.cpp")


PLANTS = [
    _plant('bool f(const Node& n) { return n.op == "conv"; }'),
    _plant('bool f(const Node* n) { return n->op != "if"; }', "judge"),
    _plant('bool f(const Graph& g) { return "loop" == g.nodes[0]->op; }', "tune"),
    _plant('bool f(const Problem& p) { return p.anchor().op == "relayout"; }', "exec"),
    _plant('bool f(const Node& n) { return n.op.starts_with("reduce_"); }', "compile"),
    _plant('bool f(const Node& n) { return kNames.contains(n.op); }', "build"),
    _plant('bool f(std::string_view op) { return op == "gemm"; }', "bench"),
    _plant('// Why.\nbool f(const Node& n) { return n.op == "conv"; }  // By name:', "problem"),
    ({"src/ops/odd.cpp": '// Odd.\nextern const Entry odd_entry;\nconst Entry odd_entry{{{.name = "odd_one"}}};\n',
      "src/tune/bad.cpp": '// Bad.\nbool f(std::string_view name) { return name == "odd_one"; }\n'}, "src/tune/bad.cpp"),
]
