"""Writes a report as one HTML file that contains its style, script and images and loads nothing else."""

import base64
import hashlib
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from medtune.data.control_characters import without_controls

TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, *, form_action: str = "'none'", **context: object) -> str:
    """Returns a page made from a template in `templates/`; every value is escaped, and loses control characters.

    The content security policy of the page allows only its own style and script, by their hashes, and images in data:
    URIs. A browser therefore runs no other script, even if one got into the page.
    """
    style, script = _asset("style.css.j2"), _asset("page.js")
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        f"base-uri 'none'; form-action {form_action}"
    )
    page = _environment().get_template(template)
    # Both are files of this package and need no escaping.
    return without_controls(page.render(style=Markup(style), script=Markup(script), policy=policy, **context))


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
