"""Compares how the hand-written C is laid out with clang-format's opinion; fails if they differ in more than columns.

What stands in columns (fields and their comments, tables, the arguments of calls) and where a line is broken is the author's: clang-format
can't keep such columns, and breaks one-line enums and structs apart.  So its output is read beside the source, and a difference
counts where one has a space and the other has none, or where the first line of a statement is indented otherwise.  The bodies of
macros are left out: a type that is an argument looks like a number to it, and `T *x` like a product.

    python tools/format_c.py [FILE ...]
"""
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
STYLE = {
    "BasedOnStyle": "LLVM", "IndentWidth": 4, "ContinuationIndentWidth": 4, "ColumnLimit": 0, "BreakBeforeBraces": "Linux",
    "AllowShortFunctionsOnASingleLine": "All", "AllowShortIfStatementsOnASingleLine": "Never", "AllowShortLoopsOnASingleLine": False,
    "AllowShortCaseLabelsOnASingleLine": True, "AllowShortBlocksOnASingleLine": "Always", "IndentCaseLabels": False,
    "PointerAlignment": "Right", "SortIncludes": "Never", "ReflowComments": "Never", "AlignTrailingComments": {"Kind": "Leave"},
    "IndentPPDirectives": "Leave", "AlignEscapedNewlines": "DontAlign", "TypenameMacros": ["N"],
}
# Lines that it misreads: arguments of macros that are types or operators, a macro with its own `;` after `{`, a range of indices.
MISREAD = ("    ROW(BOOL)", "        MICRO(1)", "FOLD(uint8_t, bool, mul", "TD_LEVELS(", "out[i] = acc[i] = plus(x[i]", "TD_DTYPE_A ... TD_DTYPE_D",
           "sizeof(T) ... 2")
PIECE = re.compile(r'((?:\s|\\\n)*)(/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|\S)', re.S)


def pieces(text):
    """(white space, what follows it) all through a file; comments and strings are whole."""
    return [(found[1].replace("\\\n", "\n"), found[2]) for found in PIECE.finditer(text)]


def differences(path):
    text = path.read_text()
    formatted = subprocess.run([str(pathlib.Path(sys.executable).parent / "clang-format"), "--assume-filename=a.c", f"--style={json.dumps(STYLE)}"], input=text,
                               capture_output=True, text=True, check=True).stdout
    ours, theirs, line, found, before = pieces(text), pieces(formatted), 1, [], ""
    if [piece for _, piece in ours] != [piece for _, piece in theirs]:
        return [f"{path.relative_to(ROOT)}: clang-format changes more than white space"]
    lines, inside = text.split("\n"), set()
    for number, content in enumerate(lines, 1):
        if content.lstrip().startswith("#") or (number - 1 in inside and lines[number - 2].endswith("\\")):
            inside.add(number)
    for (our, piece), (their, _) in zip(ours, theirs):
        line += our.count("\n")
        broken = "\n" in our, "\n" in their
        said = None
        if not any(broken) and bool(our) != bool(their):
            said = "a space too many" if our else "a space is missing"
        elif all(broken) and before in (";", "{", "}", "") and our.rpartition("\n")[2] != their.rpartition("\n")[2]:
            said = f"indented by {len(our.rpartition(chr(10))[2])} columns, not {len(their.rpartition(chr(10))[2])}"
        misread = line in inside or any(words in lines[line - 1] for words in MISREAD)
        if said and not misread and not piece.startswith(("/*", "//", "?", ":")):
            found.append(f"{path.relative_to(ROOT)}:{line}: {said}, before {piece!r} after {before!r}")
        line += piece.count("\n")
        before = piece
    return found


def main():
    names = sys.argv[1:] or subprocess.run(["git", "ls-files", "*.c", "*.h"], cwd=ROOT, capture_output=True, text=True,
                                           check=True).stdout.split()
    paths = [ROOT / name for name in names if name != "include/tede/ops.h"]     # which is generated
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = [line for lines in pool.map(differences, paths) for line in lines]
    print("\n".join(found) or f"{len(paths)} C files are laid out as they should be")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
