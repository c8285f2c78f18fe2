"""Builds the documentation site: `make docs`, or python tools/make_docs.py [folder].

The pages are docs/*.md as they lie there, and references that are gathered here: of Python from the package's own
signatures and docstrings, of C from the headers, of operators from the entries. MkDocs makes them a site, with search; a link
that leads nowhere is an error.
"""
import importlib
import inspect
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# Title, module, and what it is for; in the order of the menu.
MODULES = [
    ("tede", "tede", "What is at the top: tensors, factories, operators, modes."),
    ("Tensor", "tede.Tensor", "Methods and attributes of tensors."),
    ("explain", "tede.explain", ""), ("memory", "tede.memory", ""), ("profiler", "tede.profiler", ""),
    ("autograd", "tede.autograd", ""), ("func", "tede.func", ""),
    ("nn", "tede.nn", "Layers."), ("nn.functional", "tede.nn.functional", ""), ("nn.init", "tede.nn.init", ""),
    ("nn.utils", "tede.nn.utils", ""), ("optim", "tede.optim", ""), ("optim.lr_scheduler", "tede.optim.lr_scheduler", ""),
    ("utils.data", "tede.utils.data", ""), ("linalg", "tede.linalg", ""), ("fft", "tede.fft", ""), ("special", "tede.special", ""),
    ("distributions", "tede.distributions", ""), ("safetensors", "tede.safetensors", ""), ("gguf", "tede.gguf", ""), ("amp", "tede.amp", ""),
    ("library", "tede.library", ""), ("testing", "tede.testing", ""),
]
# The menu: pages of docs/ by their names. What is not here is listed under "More".
MENU = [
    ("Ten minutes", "tour.md"),
    ("Guides", ["tensors.md", "autograd.md", "data.md", "saving.md", "moving.md", "step.md", "reproducibility.md", "c.md"]),
    ("Inside", ["from-python-to-the-loop.md", "reading-order.md"]),
    ("Devices", ["devices.md", "add-a-device.md"]),
    ("Extending", ["add-an-operator.md", "extending.md"]),
    ("Reference", ["examples.md", "operators.md", "c-api.md"]),
    ("How well", ["accuracy.md", "performance.md"]),
    ("PyTorch", ["differences.md", "libraries.md",
                 "missing-operators.md", "sparse.md", "nested.md", "quantization.md", "mkldnn.md", "formats.md", "gguf.md", "distributed.md"]),
    ("Design", ["design.md", "transforms.md"]),
]


# ---- Python -----------------------------------------------------------------------------------------------------------

def signature(thing, name):
    """How it is called, on one line."""
    doc = inspect.getdoc(thing) or ""
    try:
        return name + re.sub(r"<(\w+) object at 0x\w+>", r"<\1>", str(inspect.signature(thing)))
    except (TypeError, ValueError):
        return name if not doc.startswith(name + "(") else ""


def operator(thing, method):
    """The manual page of an operator as Markdown; of a method that is a function, too, how it is called, and where the page is."""
    from tede import _manual
    (_, calls), (_, text), *sections = _manual.sections(thing)
    text = re.sub(r"(?<!`)``(?!`)", "`", text)
    out = ["```python", calls, "```", ""]
    link = re.search(r"^(?:The method of|Another name of) `tede\.([\w.]+)`", text, re.M)
    if link:
        place, _, name = link[1].rpartition(".")
        note = text[link.start():].split("\n")[0]
        linked = note.replace(link[0].split(" of ")[1], f"[`tede.{link[1]}`]({place or 'tede'}.md#{name})", 1)
        if method:
            return "\n".join([*out, linked])
        text = text.replace(note, linked)
    out += [text, ""]
    for title, body in sections:
        body = "\n".join(line[4:] for line in body.split("\n"))
        if title in ("Arguments", "Raises"):
            body = re.sub(r"(?<!`)``(?!`)", "`", re.sub(r"\n +", " ", body))
            out += [f"**{title}**", "", *(re.sub(r"^(\w+)", r"- `\1`", line) for line in body.split("\n")), ""]
        elif title == "Example":
            out += ["```pycon", body, "```", ""]
        elif title == "Overloads":
            out += ["<details markdown><summary>Schemas</summary>", "", "```text", body, "```", "", "</details>", ""]
        else:
            body = re.sub(r"(?<!`)``(?!`)", "`", body.replace("\n", " "))
            out += [f"**{title}**: {body}", ""]
    return "\n".join(out)


ARGUMENT = re.compile(r"    ([\w*, ]+(?: \([^)]*\))?): ")


def prose(doc):
    """A docstring as Markdown: schemas and signatures in front as code, ``x`` as `x`, examples and indented blocks as code, but
    indented "name: what it is" as a list, and what stands indented under "Title:" as a part of that title."""
    lines = doc.split("\n")
    head = []
    while lines and re.match(r"[\w.]+\(.*\)( -> .*)?$", lines[0]):
        head.append(lines.pop(0))
    out = ["```python", *head, "```"] if head else []
    for block in re.split(r"\n\s*\n", "\n".join(lines)):
        block = block.strip("\n")
        title = re.match(r"([A-Z]\w+):\n(?=    )", block)
        if title:
            out += [f"**{title[1]}**", ""]
            block = block[title.end():]
            if title[1] not in ("Arguments", "Overloads", "Example"):
                block = inspect.cleandoc(block)
        if block.lstrip().startswith(">>>"):
            out += ["```pycon", inspect.cleandoc(block), "```"]
        elif ARGUMENT.match(block):
            out += [ARGUMENT.sub(r"- **`\1`**: ", line) if line[4:5] != " " else line[4:] for line in block.split("\n")]
        elif block.startswith("    "):
            out += ["```python", "\n".join(line[4:] for line in block.split("\n")), "```"]
        else:
            out.append(block)
        out.append("")
    return re.sub(r"(?<!`)``(?!`)", "`", "\n".join(out).rstrip("\n"))


def examples():
    """{name: lines} of docs/examples.md: what is called first in each of its examples."""
    found = {}
    for block in re.findall(r"```pycon\n(.*?)```", (ROOT / "docs/examples.md").read_text(), re.S):
        for example in re.split(r"^(?=>>> )", block, flags=re.M):
            called = re.match(r">>> (tede(?:\.\w+)+)\(", example)
            if called:
                found.setdefault(called[1], []).append(example.rstrip())
    return found


def names_of(thing):
    """Public names without the in-place twins of others: the page of an operator's family says that they are there."""
    public = getattr(thing, "__all__", None)
    names = set(public if public is not None else [n for n in dir(thing) if not n.startswith("_")])
    return sorted((n for n in names if n[:-1] not in names or not n.endswith("_")), key=lambda n: (n.lower(), n))


def python_page(title, path, about):
    module, _, rest = path.partition(".Tensor")
    try:
        holder = importlib.import_module(module)
    except ImportError:
        return None
    if path.endswith(".Tensor"):
        holder = holder.Tensor
    out, shown = [f"# {path}", "", about or prose(inspect.getdoc(holder) or ""), ""], examples()
    for name in names_of(holder):
        try:
            thing = getattr(holder, name)
        except (AttributeError, ImportError, NotImplementedError, RuntimeError):
            continue
        if inspect.ismodule(thing):
            continue
        doc = inspect.getdoc(thing) or ""
        if isinstance(thing, type):
            if thing.__init__ is not object.__init__ and not issubclass(thing, Exception):
                doc = "\n\n".join(filter(None, [doc, _own(inspect.getdoc(thing.__init__))]))
        elif not callable(thing) and not isinstance(thing, property) and not inspect.isdatadescriptor(thing):
            continue
        out += [f"## {name} {{ #{name} }}", ""]
        if hasattr(thing, "_full_name") and hasattr(thing, "schemas"):
            out += [operator(thing, path.endswith(".Tensor")), ""]
            continue
        called = signature(thing, name) if callable(thing) else ""
        if called and called != name:
            out += ["```python", called, "```", ""]
        out += [prose(doc), ""]
        for example in shown.get(f"{path}.{name}", ()):
            out += ["```pycon", example, "```", ""]
        if isinstance(thing, type):
            for part, method in sorted(vars(thing).items()):
                text = inspect.getdoc(method) if callable(method) else None
                if text and not part.startswith("_"):
                    out += [f"**`{signature(method, part) or part}`**", "", prose(text), ""]
    return "\n".join(out)


def _own(doc):
    return "" if not doc or doc.startswith("Initialize self") else doc


# ---- C ----------------------------------------------------------------------------------------------------------------

COMMENT = re.compile(r"/\*(.*?)\*/", re.S)


def comment_text(text):
    return "\n".join(re.sub(r"^\s*\*? ?", "", line) for line in text.strip().split("\n")).strip()


def c_page(header):
    """A header as a page: its opening comment, then paragraphs, each comment as prose before what it is about."""
    text = header.read_text()
    opening = COMMENT.match(text)
    out = [f"# tede/{header.name}", "", comment_text(opening[1]), ""]
    body = text[opening.end():]
    body = re.sub(r"^#(ifndef TEDE_|define TEDE_\w+_HP*$|endif\b.*$|ifdef __cplusplus\nextern \"C\" \{\n#endif|ifdef __cplusplus\n\}\n#endif).*\n?",
                  "", body, flags=re.M)
    code = []

    def flush():
        lines = "\n".join(code).strip("\n")
        if lines.strip():
            out.extend(["```c", lines, "```", ""])
        code.clear()
    at, lines = 0, body.split("\n")
    while at < len(lines):
        line = lines[at]
        section = re.match(r"/\* [-=]{4} (.*?)[ -=]*\*/$", line)
        if section:
            flush()
            out += [f"## {section[1].rstrip(' -=.')}", ""]
        elif line.startswith("/*"):
            flush()
            block = [line]
            while "*/" not in block[-1]:
                at += 1
                block.append(lines[at])
            out += [comment_text("\n".join(block).replace("/*", "").replace("*/", "")).replace("``", "`").replace("<", "&lt;"), ""]
        else:
            code.append(line)
        at += 1
    flush()
    return "\n".join(out)


# ---- the site ---------------------------------------------------------------------------------------------------------

def menu(pages, python, c):
    used, lines = set(), ["  - Home: index.md"]

    def add(indent, name):
        if name in pages:
            used.add(name)
            lines.append(f"{indent}- {name}")
    for title, entry in MENU:
        if isinstance(entry, str):
            if entry in pages:
                used.add(entry)
                lines.append(f"  - {title}: {entry}")
            continue
        lines.append(f"  - {title}:")
        for name in entry:
            add("    ", name)
        if title == "Reference":
            lines += ["    - Python:", *(f"      - {t}: {p}" for t, p in python), "    - C headers:", *(f"      - {t}: {p}" for t, p in c)]
    rest = sorted(pages - used - {"index.md"})
    if rest:
        lines += ["  - More:", *(f"    - {name}" for name in rest)]
    return lines


CONFIG = """\
site_name: tede
docs_dir: sources
site_dir: {site}
theme:
  name: material
  font: false
  features: [navigation.tabs, navigation.top, navigation.indexes, search.highlight, search.suggest, content.code.copy, toc.follow]
  palette:
    - {{media: "(prefers-color-scheme: light)", scheme: default, primary: deep orange, toggle: {{icon: material/weather-night, name: dark}}}}
    - {{media: "(prefers-color-scheme: dark)", scheme: slate, primary: deep orange, toggle: {{icon: material/weather-sunny, name: light}}}}
extra_css: [extra.css]
plugins: [search]
markdown_extensions: [attr_list, admonition, md_in_html, tables, pymdownx.highlight, pymdownx.superfences, {{toc: {{permalink: true, toc_depth: 3}}}}]
validation: {{nav: {{omitted_files: warn, not_found: warn}}, links: {{not_found: warn, anchors: warn, absolute_links: warn, unrecognized_links: warn}}}}
nav:
{nav}
"""
CSS = """\
.md-grid { max-width: 76rem; }
.md-typeset table:not([class]) { font-size: .68rem; }
.md-typeset table:not([class]) code { word-break: break-word; }
.md-typeset pre > code { overflow-x: auto; }
.md-typeset img { max-width: 100%; }
"""


def boosted(text, boost):
    """A page whose results stand above or below others in the search: a guide is meant before one of a thousand operators."""
    return f"---\nsearch:\n  boost: {boost}\n---\n{text}"


def main(site="site"):
    work = ROOT / "build" / "docs"
    sources = work / "sources"
    shutil.rmtree(work, ignore_errors=True)
    (sources / "python").mkdir(parents=True)
    (sources / "c").mkdir()
    for page in (ROOT / "docs").glob("*"):
        if page.is_file():
            shutil.copy(page, sources)
    for name in ["tour.md", *dict(MENU)["Guides"]]:
        (sources / name).write_text(boosted((sources / name).read_text(), 6))
    (sources / "operators.md").write_text(boosted((sources / "operators.md").read_text(), 0.3))
    (sources / "extra.css").write_text(CSS)
    python = []
    for title, path, about in MODULES:
        text = python_page(title, path, about)
        if text:
            (sources / "python" / f"{title}.md").write_text(boosted(text, 0.5))
            python.append((title, f"python/{title}.md"))
    c = []
    for header in sorted((ROOT / "include/tede").glob("*.h")) + [ROOT / "include/tede/tede.hpp"]:
        (sources / "c" / f"{header.name}.md").write_text(boosted(c_page(header), 0.3))
        c.append((header.name, f"c/{header.name}.md"))
    pages = {page.name for page in sources.glob("*.md")}
    (work / "mkdocs.yml").write_text(CONFIG.format(site=(ROOT / site).resolve(), nav="\n".join(menu(pages, python, c))))
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", work / "mkdocs.yml"], check=True,
                   env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    print(f"{sum(1 for _ in (ROOT / site).rglob('*.html'))} pages in {site}/")


if __name__ == "__main__":
    main(*sys.argv[1:])
