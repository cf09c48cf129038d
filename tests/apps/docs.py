"""Checks README.md, CONTRIBUTING.md, docs/ and the pages beside code: python3 docs.py ROOT HELP_TEXT [SOURCES]. Prints each fault and exits with 1.

SOURCES is the folder whose messages docs/troubleshooting.md lists; the default is ROOT."""
import pathlib
import re
import sys

LONGEST_README, LONGEST_PAGE, LONGEST_SENTENCE = 150, 250, 30
# Options of other programs than ours.
FOREIGN = {"--hostfile", "--bind-to", "--map-by", "--mca", "--oversubscribe", "--logdir", "--preset", "--install", "--prefix", "--build", "--target",
           "--test-dir", "--dependency", "--array", "--nodes", "--mpi", "--ntasks-per-node", "--exclude", "--cpus-per-task",
           "--signal", "--block-signal", "--gpu-bind", "--requeue", "--mem-per-cpu",
           "--save", "--save-state", "--to-checkpoint", "--nproc-per-node", "--nnodes", "--rdzv-endpoint", "--amp", "--num-workers"}

# Words that hide the actor or a term of the field, and what to write instead.
FORBIDDEN = {
    r"nobody|somebody|whoever|whomever": "the actor", r"but for": "except", r"at the begin": "at the beginning",
    r"usual": "default", r"to be had|is had|are had": "available", r"no number|beyond all numbers": "NaN, overflow",
    r"cause and cure": "reason and fix", r"foretells?": "predicts", r"so many (?:of|per cent)": "the number"}
# Phrases with such a word that are right.
ALLOWED = ()

root, help_text = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_text()
sources = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else root
faults = []


def anchors(page):
    headings = re.findall(r"^#+ +(.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def without_code(text):
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    return "\n".join(line for line in text.splitlines() if not line.startswith("    "))


def check_links(page, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        # The copy that proves this check holds no folders but docs/: what lies outside is not looked for there.
        if not file.exists() and (root / "src").exists() or not file.exists() and "/" not in path:
            faults.append(f"{page}: the link to {target} is dead")
        elif anchor and file.exists() and anchor not in anchors(file):
            faults.append(f"{page}: no heading for {target}")


def check_paths(page, text):
    """Files and folders of the sources exist. A path may lack its extension; that of an example has NAME, scale or small."""
    for path in re.findall(r"`((?:apps|bench|cmake|collectives|docs|net|scripts|slurm|src|tests)/[\w./-]+)`", text):
        example = re.search(r"NAME|net/layers/scale\.cc|networks/small\.toml", path)
        if not example and not (sources / path).exists() and not list(sources.glob(path + ".*")):
            faults.append(f"{page}: there is no {path}")


def check_sentences(page, text):
    prose = [line for line in without_code(text).splitlines() if not re.match(r"\s*(\||#|!\[)", line)]
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )", "\n".join(prose)):
        for sentence in re.split(r"(?<=[.!?:;])\s+", re.sub(r"`[^`]*`", "code", paragraph)):
            if len(sentence.split()) > LONGEST_SENTENCE:
                faults.append(f"{page}: a sentence of {len(sentence.split())} words: {sentence[:60]!r}")


def check_options(page, text):
    for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", "\n".join(re.findall(r"`([^`]*)`", without_code(text)))):
        lines = [line for line in text.splitlines() if option in line]
        ours = any(not re.search(r"scripts/|bench_|bench/|cost_model|cmake|ctest|mpirun|srun|sbatch|scontrol|scancel|mkdocs", line)
                   for line in lines)
        if ours and option not in FOREIGN and not re.search(re.escape(option) + r"\b", help_text):
            faults.append(f"{page}: there is no option {option}")


def check_words(place, text):
    for phrase in ALLOWED:
        text = text.replace(phrase, "")
    for pattern, better in FORBIDDEN.items():
        for word in re.findall(rf"\b(?:{pattern})\b", text, re.I):
            faults.append(f"{place}: {word!r}; write {better}")


def check_help():
    rows = re.findall(r"^  (--[a-z][a-z0-9-]*)(.*)$", help_text, re.M)
    if len(rows) < 80:
        faults.append(f"the help: only {len(rows)} options were found")
    faults.extend(f"the help: {name} has no text" for name, text in rows if not re.search(r"\s\s\S", text))
    check_words("the help", help_text)


def messages():
    """The texts that the programs and scripts can print. A NUL stands for each placeholder."""
    files = [sources / "CMakeLists.txt"]
    for folder in "apps", "collectives", "net", "src", "scripts", "slurm", "cmake":
        files += [file for file in sorted((sources / folder).rglob("*")) if file.is_file() and file.suffix != ".md"]
    texts = []
    for file in files:
        text = file.read_text(errors="replace")
        if file.suffix in {".cc", ".h", ".cu", ".cuh"}:
            joined = re.sub(r'"\s*\n\s*"', "", re.sub(r"^\s*//.*", "", text, flags=re.M))
            literals = re.findall(r'"((?:[^"\\\n]|\\.)*)"', joined)
            text = re.sub(r"\{[^{}]*\}", "\0", "\n".join(literals)).replace('\\"', '"')
        else:
            text = re.sub(r"\$\{[^{}]*\}|\$\w+|(?<!\$)\{[^{}\n]*\}", "\0", re.sub(r'"\s*\n\s*f?"', "", text))
        texts.append(text)
    return "\n".join(texts)


def check_troubleshooting(page, text):
    """The first column of its tables of messages quotes them literally."""
    if not (sources / "src").is_dir():
        return
    known, in_table, phrases = messages(), False, 0
    for line in text.splitlines():
        if not line.startswith("|"):
            in_table = False
        elif line.startswith("| message contains "):
            in_table = True
        elif in_table and not line.startswith("|---"):
            quoted = re.findall(r"`([^`]*)`", line.split(" | ")[0])
            phrases += len(quoted)
            if not quoted:
                faults.append(f"{page}: a row without a message: {line[:60]!r}")
            faults.extend(f"{page}: no program prints {phrase!r}" for phrase in quoted if phrase not in known)
    if phrases == 0:
        faults.append(f"{page}: no messages were found")


beside_code = [page for page in (root / "bench/predictions.md",) if page.exists()]
pages = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").glob("*.md")), *beside_code]
if len(pages) < 5:
    faults.append(f"{root}: only {len(pages)} pages were found")
for page in pages:
    text = page.read_text()
    limit = LONGEST_README if page.name == "README.md" else LONGEST_PAGE
    if len(text.splitlines()) > limit:
        faults.append(f"{page}: more than {limit} lines")
    check_links(page, text)
    check_sentences(page, text)
    check_options(page, text)
    if (sources / "src").is_dir():
        check_paths(page, text)
    check_words(page, without_code(text))
    if page.name == "troubleshooting.md":
        check_troubleshooting(page, text)
    if page.parent.name == "docs" and f"](docs/{page.name})" not in pages[0].read_text():
        faults.append(f"{page}: README.md does not link to it")
check_help()
if (root / "src").is_dir():
    check_words("messages", messages())
    for page in root / "CHANGELOG.md", root / "bench/peers/README.md":
        check_words(page, page.read_text())
    if len((root / "CHANGELOG.md").read_text().splitlines()) > 60:
        faults.append("CHANGELOG.md: more than 60 lines for the first version")
print("\n".join(faults))
sys.exit(bool(faults))
