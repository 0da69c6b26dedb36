#!/usr/bin/env python3
"""Write what a run of the slow tests found: DIR/DATE_slow.json and .md, with machine and commit.

Takes CTest's own record (`ctest --output-junit FILE`) and, where the run made one, today's report of agreement in DIR.
"""
import argparse
import json
import pathlib
import sys
import xml.etree.ElementTree as xml

from engines import default_peri
from report_files import head, table, write


def tests_of(record):
    """Name, result, seconds of every test of CTest's record; what a failed one said last."""
    for case in xml.parse(record).getroot().iter("testcase"):
        result = {"run": "passed", "fail": "FAILED"}.get(case.get("status"), case.get("status"))
        row = {"test": case.get("name"), "result": result, "seconds": round(float(case.get("time", 0)), 1)}
        if result == "FAILED":
            row["said"] = (case.findtext("system-out") or "").strip()[-400:]
        yield row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("record", type=pathlib.Path, metavar="JUNIT", help="what ctest --output-junit wrote")
    p.add_argument("folder", type=pathlib.Path, metavar="DIR", help="where the report is put")
    p.add_argument("--peri", default=default_peri(), metavar="FILE", help="the program that was tested (default build/bin/peri)")
    a = p.parse_args()
    report = head(a.peri) | {"tests": list(tests_of(a.record))}
    parts = [table(["test", "result", "seconds"], [[t["test"], t["result"], t["seconds"]] for t in report["tests"]])]
    agreement = a.folder / f"{report['date']}_agreement.json"
    if agreement.is_file() and json.loads(agreement.read_text())["commit"] == report["commit"]:
        report["agreement"] = agreement.name
        parts.append(f"Agreement with ONNX Runtime, model by model: [{agreement.with_suffix('.md').name}]({agreement.with_suffix('.md').name}).")
    passed = sum(t["result"] == "passed" for t in report["tests"])
    base = write(a.folder, "slow", report, f"The tests labelled slow: {passed} of {len(report['tests'])} passed.", *parts)
    print(f"report: {base}.md", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
