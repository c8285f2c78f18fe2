"""Reads parity's JSON and fails where the operators that are present fall below what they have reached."""
import json
import pathlib
import sys

FLOOR = {'forward': 0.99, 'backward': 0.985}    # of the checks of operators that are present


def main():
    report = json.loads(pathlib.Path(sys.argv[1]).read_text())
    entries = [e for e in report['entries'].values() if e['present']]
    totals = {}
    for entry in entries:
        for name, (passed, done) in entry['checks'].items():
            category = name.split()[1] if ' ' in name else name
            so_far = totals.setdefault(category, [0, 0])
            so_far[0] += passed
            so_far[1] += done
    for category, (passed, done) in sorted(totals.items()):
        print(f'{category:20} {passed:6} of {done:6}  {passed / done:.1%}')
    low = [c for c, floor in FLOOR.items() if c in totals and totals[c][0] < floor * totals[c][1]]
    if not entries or low:
        sys.exit(f'parity: below the floor in {", ".join(low) or "everything"}')


if __name__ == '__main__':
    main()
