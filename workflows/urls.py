"""URLs that may hold a password: how to show them, and how to keep the password out of what others say."""

from urllib.parse import quote, quote_plus

from sqlalchemy.engine import URL

_SECRETS = ("password", "sslpassword")


def shown(url: URL) -> str:
    """The URL without its password."""
    return url.difference_update_query(_SECRETS).render_as_string(hide_password=True)


def without_secrets(text: str, url: URL) -> str:
    """The text with every way to write the URL's password blackened."""
    for secret in (url.password, *(url.query.get(name) for name in _SECRETS)):
        for written in (str(secret), quote(str(secret), safe=""), quote_plus(str(secret))) if secret else ():
            text = text.replace(written, "***")
    return text
