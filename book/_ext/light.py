"""Pages load what they use: no script of two thousand icons, and a font and rules of those few that appear.

The theme writes icons twice: as characters of a font, which its style sheet names, and by a script of 1.5 MB that turns
them into drawings. The font is enough, and a copy with only the icons of this book is a few kilobytes.
"""

import re
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

TEMPLATES = Path(__file__).parents[1] / "_templates"
FONTS = {"fa-solid-900": ("Font Awesome 6 Free", 900), "fa-brands-400": ("Font Awesome 6 Brands", 400)}
ICON_CLASS = re.compile(r"\bfa-[a-z0-9-]+")
ICON_RULE = re.compile(r'((?:\.fa-[a-z0-9-]+:before,?)+)\{content:"\\([0-9a-f]+)"\}')
# What the theme's style sheets put before or behind a text by themselves: signs of admonitions, arrows of lists.
IN_STYLES = re.compile(r'(?:--pst-[a-z-]+:|content:)"(?:\\(f[0-9a-f]{3})|([\ue000-\uf8ff]))"')


def add_templates(app, config):
    config.templates_path = [str(TEMPLATES), *config.templates_path]


def add_filter(app):
    if app.builder.format == "html":
        app.builder.templates.environment.filters["without"] = without


def without(head, *names):
    """HTML without the elements <script src=…> that load a file of one of these names."""
    scripts = re.compile(rf'\s*<script\b[^>]*\bsrc="[^"]*(?:{"|".join(map(re.escape, names))})[^"]*"[^>]*></script>')
    return scripts.sub("", head)


def theme_styles(folder):
    (file,) = (folder / "_static/styles").glob("pydata*.css")
    return file


def used_icons(folder):
    """The classes of the icons that the pages below a folder show."""
    return {name for page in folder.rglob("*.html") for name in ICON_CLASS.findall(page.read_text(encoding="utf-8"))}


def characters(styles, used):
    """The characters of these icons in the fonts, and those that the theme's styles add by themselves."""
    codes = {name: int(code, 16) for names, code in ICON_RULE.findall(styles) for name in ICON_CLASS.findall(names)}
    added = {int(code, 16) if code else ord(sign) for code, sign in IN_STYLES.findall(ICON_RULE.sub("", styles))}
    return {codes[name] for name in used & set(codes)} | added | {0xF107}  # the last: the arrow of 'On this page'


def write_icons(app, exception):
    """_static/icons.css, which the pages load after the theme's styles: the same families, with the used icons only."""
    if exception or app.builder.format != "html":
        return
    folder = Path(app.outdir)
    file, used = theme_styles(folder), used_icons(folder)
    styles = file.read_text(encoding="utf-8")
    file.write_text(ICON_RULE.sub(lambda rule: rule[0] if used & set(ICON_CLASS.findall(rule[1])) else "", styles), encoding="utf-8")
    shown = characters(styles, used)
    rules = ["/* Icons of Font Awesome Free (https://fontawesome.com), fonts under the SIL OFL 1.1: the few that this book shows. */"]
    for name, (family, weight) in FONTS.items():
        font = TTFont(folder / f"_static/vendor/fontawesome/webfonts/{name}.ttf")
        here = sorted(shown & set(font.getBestCmap()))
        if here:
            rules.append(font_face(font, here, folder / f"_static/icons-{weight}.woff", family, weight))
    (folder / "_static/icons.css").write_text("\n".join(rules) + "\n", encoding="utf-8")


def font_face(font, codes, file, family, weight):
    """Write the font's part with these characters, and give the rule that loads it."""
    options = subset.Options(flavor="woff", layout_features=[], notdef_outline=True, glyph_names=False)
    chosen = subset.Subsetter(options)
    chosen.populate(unicodes=codes)
    chosen.subset(font)
    font["head"].modified = font["head"].created  # the same bytes on every run
    subset.save_font(font, str(file), options)
    ranges = ", ".join(f"U+{code:x}" for code in codes)
    return f'@font-face {{ font-family: "{family}"; font-weight: {weight}; src: url({file.name}) format("woff"); unicode-range: {ranges}; }}'


def setup(app):
    app.connect("config-inited", add_templates)
    app.connect("builder-inited", add_filter)
    app.connect("build-finished", write_icons)
    app.add_css_file("icons.css", priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
