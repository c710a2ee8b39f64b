"""What the tools of catalog.yaml do when they run: plain functions, one for each `run: {python: ...}`.

config.yml lists this module under python_modules; nothing else may run. What a function returns is shown
to the user.
"""

from __future__ import annotations

from typing import Any

BOOKS = {"Dune": "Frank Herbert", "Moby Dick": "Herman Melville", "Palace Walk": "Naguib Mahfouz"}


def search(query: str, language: str | None = None) -> dict[str, Any]:
    """Find books by title or author."""
    words = query.lower().split()
    items = [
        {"title": title, "author": author}
        for title, author in BOOKS.items()
        if any(word in f"{title} {author}".lower() for word in words)
    ]
    return {"items": items, "count": len(items)}


def renew(title: str, until: str | None = None) -> dict[str, Any]:
    """Keep a book for longer."""
    return {"title": title, "until": until or "two more weeks"}


def hours(date: str | None = None) -> dict[str, Any]:
    """Say when the library is open."""
    return {"date": date or "every day", "opens": "09:00", "closes": "20:00"}


def book_room(date: str, start: str, people: int = 1) -> dict[str, Any]:
    """Reserve a room."""
    return {"room": "blue room", "date": date, "start": start, "people": people}
