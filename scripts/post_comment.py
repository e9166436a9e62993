"""Keep one comment of `featurelib lint` on a pull request of GitHub: update it, or write it once.

python scripts/post_comment.py NUMBER FILE

The comment is recognised by its first line; its author is a bot or the token's user.
Environment: TOKEN, GITHUB_REPOSITORY, GITHUB_API_URL.
If it cannot be written, as for a fork or if GitHub does not respond, the script prints a note and
succeeds, because the job summary has the text.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

PAGE, SECONDS = 100, 30
LONGEST = 65_000  # characters of a comment; GitHub takes 65,536
REFUSED = (401, 403, 404)


def call(method: str, path: str, body: str | None = None) -> Any:
    """Send a request to GitHub's API; return the response. Raises OSError, HTTPException or
    ValueError."""
    url = f"{os.environ.get('GITHUB_API_URL', 'https://api.github.com')}{path}"
    data = None if body is None else json.dumps({"body": body}).encode()
    request = urllib.request.Request(url, data=data, method=method)
    request.add_header("Authorization", f"Bearer {os.environ['TOKEN']}")
    request.add_header("Accept", "application/vnd.github+json")
    with urllib.request.urlopen(request, timeout=SECONDS) as response:
        return json.load(response)


def own_name() -> str:
    """Return the user of the token; "" if GitHub does not tell the user."""
    try:
        answer = call("GET", "/user")
    except urllib.error.HTTPError:
        return ""
    return str(answer.get("login")) if isinstance(answer, dict) else ""


def find(comments: str, mark: str) -> int | None:
    """Return the id of this user's comment that begins with `mark`; None if it does not exist."""
    page, own = 1, own_name()
    while True:
        answer = call("GET", f"{comments}?per_page={PAGE}&page={page}")
        if not isinstance(answer, list):
            raise ValueError("the response of GitHub is no list of comments")
        for comment in answer:
            user = comment.get("user") or {}
            is_own = user.get("type") == "Bot" or user.get("login") == own
            if is_own and (comment.get("body") or "").splitlines()[:1] == [mark]:
                return int(comment["id"])
        if len(answer) < PAGE:
            return None
        page += 1


def main(number: str, file: str) -> None:
    """Update the comment, or create it."""
    text = Path(file).read_text(encoding="utf-8")
    if len(text) > LONGEST:
        text = f"{text[:LONGEST].rpartition(chr(10))[0]}\n\nThe rest is in the job summary.\n"
    issues = f"/repos/{os.environ['GITHUB_REPOSITORY']}/issues"
    comments = f"{issues}/{number}/comments"
    try:
        known = find(comments, text.splitlines()[0])
        if known is None:
            call("POST", comments, text)
        else:
            call("PATCH", f"{issues}/comments/{known}", text)
    except (OSError, HTTPException, ValueError) as error:  # HTTPError and timeouts, too
        print(f"::warning::No comment: {error}. The job summary has the findings.")
        if isinstance(error, urllib.error.HTTPError) and error.code in REFUSED:
            print("To get the comment, give the job the permission pull-requests: write.")


if __name__ == "__main__":
    main(*sys.argv[1:])
