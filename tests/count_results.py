"""Sums the reports that tests/run.sh leaves, and prints the closing line.

usage: count_results.py FOLDER [FAILED_STEP ...]

FOLDER holds JUnit files: PRESET/ctest.xml with one entry a binary, PRESET/gtest/BINARY.xml with that binary's cases, pytest/NAME.xml.
A step that failed without a failing case behind it (a build, a crash, a timeout) counts as one failure.
"""

# SPDX-License-Identifier: Apache-2.0
import dataclasses
import pathlib
import sys
import xml.etree.ElementTree


@dataclasses.dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other):
        return Count(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)


def cases_of(report):
    """The cases of one JUnit file of GoogleTest or pytest."""
    count = Count()
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            count.failed += 1
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            count.skipped += 1
        else:
            count.passed += 1
    return count


def ctest_cases(report):
    """The cases behind a ctest report; an entry without a report of its own is one case."""
    total = Count()
    for entry in xml.etree.ElementTree.parse(report).iter("testcase"):
        count = Count()
        cases = report.parent / "gtest" / f"{entry.get('name')}.xml"
        if cases.exists():
            count = cases_of(cases)
        if entry.get("status") == "run":
            count.passed += 0 if cases.exists() else 1
        elif count.failed == 0:  # it crashed, ran out of time, is not built or has no report
            count.failed = 1
        total += count
    return total


def main(folder, failed_steps):
    total = Count()
    for report in sorted(folder.glob("*/ctest.xml")):
        total += ctest_cases(report)
    for report in sorted(folder.glob("pytest/*.xml")):
        total += cases_of(report)
    for step in failed_steps:
        print(f"failed: {step}")
    if failed_steps and total.failed == 0:
        total.failed = len(failed_steps)
    skipped = f", {total.skipped} skipped" if total.skipped else ""
    print(f"{total.passed} passed, {total.failed} failed{skipped}")
    return 1 if total.failed or total.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2:]))
