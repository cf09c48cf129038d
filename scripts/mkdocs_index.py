"""A hook of mkdocs: README.md is the first page of the site. Links to files outside docs/ become plain text."""
import pathlib
import re
import tempfile

from mkdocs.structure.files import File

FOLDER = tempfile.TemporaryDirectory()  # until mkdocs ends


def on_files(files, config):
    """Adds index.md to the pages."""
    text = (pathlib.Path(config["docs_dir"]).parent / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"\[([^]]*)\]\((?!docs/|https?:)[^)]*\)", r"\1", text).replace("](docs/", "](")
    pathlib.Path(FOLDER.name, "index.md").write_text(text, encoding="utf-8")
    files.append(File("index.md", FOLDER.name, config["site_dir"], config["use_directory_urls"]))
    return files
