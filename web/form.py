"""The page with the token form. It needs neither JavaScript nor anything from another host."""

from __future__ import annotations

import base64
import hashlib
import html
from string import Template

_STYLE = """
  body { font: 1rem/1.5 system-ui, sans-serif; margin: 0; min-height: 100vh; display: grid; place-items: center;
         background: #f6f7f9; color: #1c2128 }
  form { box-sizing: border-box; width: min(24rem, 100vw); padding: 1.5rem; display: grid; gap: .75rem }
  h1 { font-size: 1.25rem; margin: 0 }
  p { margin: 0 }
  input, button { font: inherit; padding: .6rem .75rem; border: 1px solid #8c959f; border-radius: .4rem;
                  background: #fff; color: inherit }
  button { background: #0757b8; border-color: #0757b8; color: #fff; cursor: pointer }
  .wrong { color: #b3261e }
  @media (prefers-color-scheme: dark) {
    body { background: #14181d; color: #e6e9ed }
    input { background: #1f252c; border-color: #6b7480 }
    .wrong { color: #ff9a90 }
  }
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'self'"
)
"""The content security policy of the form. Its style is inline, because a file would need the token too."""
_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>livegym</title>
<style>$style</style>
</head>
<body>
<main>
<form method="post" action="/login">
  <h1>livegym</h1>
  <p>The token is in the address that the program printed when it started.</p>
  $problem
  <label for="token">Token</label>
  <input id="token" name="token" type="password" autocomplete="current-password" autofocus required>
  <input name="next" type="hidden" value="$next">
  <button>Open</button>
</form>
</main>
</body>
</html>
""")


def token_form(next_path: str, problem: str = "") -> str:
    """Return the HTML of a form that asks for the token, shows `problem`, and then leads to `next_path`."""
    shown = f'<p class="wrong" role="alert">{html.escape(problem)}</p>' if problem else ""
    return _PAGE.substitute(style=_STYLE, problem=shown, next=html.escape(next_path, quote=True))
