"""Report -> HTML: one file with its style, script and images inside, which may load nothing from anywhere."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, **context: object) -> str:
    """Returns a page of `templates/`; every value is escaped.

    The page's content security policy allows its own style and script by their hashes and images in data: URIs, so
    that a browser would refuse markup that slipped in.
    """
    style, script = _asset("style.css.j2"), _asset("page.js")
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    page = _environment().get_template(template)
    # Both are files of this package, not data.
    return page.render(style=Markup(style), script=Markup(script), policy=policy, **context)


def _asset(name: str) -> str:
    return _environment().get_template(name).render()


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
