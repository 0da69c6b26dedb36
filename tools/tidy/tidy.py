#!/usr/bin/env python3
"""Checks the tree against the rules of the folder rules/, one file a rule; --selftest plants a violation of each.

Objects are checked by isa_objects.py. A rule is a module with a docstring that says what it demands, check(tree) → (path, line, message)..., and PLANTS: small
trees, each with the path where the rule must find something.
"""
import argparse
import importlib
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))

from tree import Tree  # noqa: E402

# A tree in which no rule finds anything; plants are laid over it.
CLEAN = {
    "LAYERS": "0 base\n1 ir\n1 plan\n2 ops\n3 kernels\n3 onnx\n11 cli\n",
    "src/base/thing.hpp": "// Things stand here.\n#pragma once\nnamespace peri {\nint thing();\n}\n",
    "src/base/thing.cpp": '// Things work.\n#include "base/thing.hpp"\nnamespace peri {\nint thing() { return 1; }\n}\n',
    "src/ir/use.cpp": '// Uses a thing; no new word, "throw" only here.\n#include "base/thing.hpp"\nint use() { return peri::thing(); }\n',
    "src/ops/relu.cpp": "// Relu.\nextern const Entry relu_entry;\n",
    "src/cli/run.cpp": "// Run.\nextern const Entry run_entry;\n",
    "tests/base/thing_test.cpp": '// A thing is one.\n#include <gtest/gtest.h>\n#include "base/thing.hpp"\n',
    "tools/dev/test.sh": "# Tests.\n",
    "README.md": "Words.\n```\n./dev test slow\nperi run model.onnx\n```\n",
}


def rules(names=()):
    files = sorted(p.stem for p in (HERE / "rules").glob("*.py"))
    return [importlib.import_module(f"rules.{stem}") for stem in files if not names or stem in names]


def short(rule):
    return rule.__name__.split(".")[-1]


def check(root, chosen):
    tree = Tree(root)
    findings = [(path, line, short(rule), message) for rule in chosen for path, line, message in rule.check(tree)]
    for path, line, rule, message in sorted(findings):
        print(f"{path}:{line}: [{rule}] {message}")
    print(f"tidy: {len(tree.files)} files, {len(chosen)} rules, {len(findings)} findings", file=sys.stderr)
    return 1 if findings else 0


def lay(root, files):
    for path, content in files.items():
        target = pathlib.Path(root, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)


def selftest(chosen):
    failures = []
    with tempfile.TemporaryDirectory() as root:
        lay(root, CLEAN)
        tree = Tree(root)
        for rule in chosen:
            failures += [f"{short(rule)}: finds {f} in the clean tree" for f in rule.check(tree)]
    planted = 0
    for rule in chosen:
        if not rule.PLANTS:
            failures.append(f"{short(rule)}: plants nothing")
        for files, expected in rule.PLANTS:
            planted += 1
            with tempfile.TemporaryDirectory() as root:
                lay(root, CLEAN | files)
                found = {path for path, _, _ in rule.check(Tree(root))}
                if found != {expected}:
                    failures.append(f"{short(rule)}: planted in {expected}, found {sorted(found)}: {list(files)}")
    for failure in failures:
        print(failure)
    print(f"tidy: {len(chosen)} rules, {planted} planted violations, {len(failures)} failures", file=sys.stderr)
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rules", nargs="*", metavar="RULE", help="rules to apply (default: all)")
    parser.add_argument("--root", default=HERE.parent.parent, help="the tree to check (default: this project)")
    parser.add_argument("--selftest", action="store_true", help="check the rules themselves")
    parser.add_argument("--list", action="store_true", help="print what each rule demands")
    options = parser.parse_args()
    chosen = rules(options.rules)
    if options.list:
        for rule in chosen:
            print(f"{short(rule):12} {' '.join(rule.__doc__.split())}")
        return 0
    return selftest(chosen) if options.selftest else check(options.root, chosen)


if __name__ == "__main__":
    sys.exit(main())
