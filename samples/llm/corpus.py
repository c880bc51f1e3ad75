"""The text of the sample: headings and paragraphs of Python's documentation, as Debian's package python3.11-doc ships it."""
import html.parser
import os

ROOT = os.environ.get("CORPUS", "/usr/share/doc/python3.11/html")
FOLDERS = ["tutorial", "faq", "howto", "reference", "library", "extending", "using", "whatsnew", "c-api"]
BLOCKS = {"h1", "h2", "h3", "h4", "p"}


class Paragraphs(html.parser.HTMLParser):
    """Collects the text of headings and paragraphs in the main part of a page."""

    def __init__(self):
        super().__init__()
        self.lines, self.main, self.block, self.skip = [], False, False, False

    def handle_starttag(self, tag, attributes):
        classes = dict(attributes).get("class") or ""
        self.main |= ("role", "main") in attributes
        self.main &= not {"related", "sphinxsidebar"} & set(classes.split())
        self.skip = tag == "a" and "headerlink" in classes
        if tag in BLOCKS and self.main:
            self.block = True
            self.lines.append("")

    def handle_endtag(self, tag):
        self.block &= tag not in BLOCKS
        self.skip &= tag != "a"

    def handle_data(self, data):
        if self.block and not self.skip:
            self.lines[-1] += data


def read(root=ROOT):
    """One line per heading or paragraph; an empty line between pages."""
    pages = []
    for folder in FOLDERS:
        for name in sorted(os.listdir(os.path.join(root, folder))):
            if not name.endswith(".html"):
                continue
            page = Paragraphs()
            with open(os.path.join(root, folder, name), encoding="utf-8") as file:
                page.feed(file.read())
            lines = [" ".join(line.split()) for line in page.lines]
            pages.append("\n".join(line for line in lines if len(line) > 1))
    return "\n\n".join(pages) + "\n"
