"""The salon's tools: plain functions over one SQLite file, so that the whole set runs on a laptop.

The file is ``$BOOKING_DB``, or ``booking.sqlite`` beside this module; ``use(path)`` names another. Functions
that read give ``{"items": [...], "count": n}``, functions that write give the row that they wrote or
``{"changed": n}``. The customer, the prices and the staff are invented.
"""

from __future__ import annotations

import datetime as dt
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TABLES = {
    "appointment": "service, date, time, staff, party_size, notes, state",
    "waiting": "service, date, part_of_day, staff, phone",
    "voucher": "amount, recipient_name, recipient_email, message",
    "feedback": "rating, comment, staff, service",
    "contact": "phone, email",
    "reminder": "channel, hours_before",
}
HOURS = range(10, 20)
PARTS = {"morning": range(10, 13), "afternoon": range(13, 17), "evening": range(17, 20)}
# Service: category, price in euro, staff who do it.
SERVICES = {
    "haircut": ("hair", 28, ("lucia", "omar", "ines")),
    "colour": ("hair", 55, ("lucia", "ines")),
    "highlights": ("hair", 75, ("lucia", "ines")),
    "blow_dry": ("hair", 20, ("lucia", "nadia")),
    "beard_trim": ("beard", 15, ("omar", "carlos")),
    "manicure": ("nails", 22, ("nadia",)),
    "pedicure": ("nails", 30, ("nadia",)),
    "massage": ("body", 45, ("carlos",)),
    "facial": ("face", 40, ("nadia", "ines")),
    "waxing": ("body", 25, ("nadia",)),
}
LENGTHS = {"short": 0, "medium": 8, "long": 15}
LANGUAGES = {
    "lucia": ("spanish", "english"), "omar": ("arabic", "english"), "nadia": ("arabic", "spanish"),
    "carlos": ("spanish",), "ines": ("spanish", "english"),
}  # fmt: skip
POLICIES = {
    "cancellation": "free up to 24 hours before",
    "late_arrival": "after 15 minutes the appointment may be shortened",
    "payment": "cash, card or voucher",
    "deposit": "20 euro for colour and highlights",
    "children": "under 12 with an adult",
    "pets": "small pets on a lead",
}
PLACES = {
    "address": "Calle Palma 12",
    "route": "five minutes from the metro",
    "parking": "two spaces in the yard",
    "wheelchair_access": "step-free entrance on the left",
}
Row = dict[str, Any]
_lock = threading.RLock()
_opened: dict[str, sqlite3.Connection] = {}
_path: Path | None = None


def use(path: str | Path) -> None:
    """Keep the rows in another file from now on."""
    global _path
    _path = Path(path)


@contextmanager
def _database() -> Iterator[sqlite3.Connection]:
    path = str(_path or os.environ.get("BOOKING_DB") or Path(__file__).parent / "booking.sqlite")
    with _lock:
        if path not in _opened:
            _opened[path] = sqlite3.connect(path, check_same_thread=False)
            _opened[path].row_factory = sqlite3.Row
            for table, columns in TABLES.items():
                columns = f"id INTEGER PRIMARY KEY, customer_id, {columns}"
                _opened[path].execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
        with _opened[path]:
            yield _opened[path]


def _add(table: str, **row: Any) -> Row:
    kept = {name: value for name, value in row.items() if value is not None}
    names, marks = ", ".join(kept), ", ".join("?" * len(kept))
    with _database() as database:
        text = f"INSERT INTO {table} ({names}) VALUES ({marks})"
        number = database.execute(text, list(kept.values())).lastrowid
    return {"id": number, **{name: value for name, value in kept.items() if name != "customer_id"}}


def _rows(table: str, **given: Any) -> list[Row]:
    kept = {name: value for name, value in given.items() if value is not None}
    where = " AND ".join(f"{name} = ?" for name in kept) or "1"
    with _database() as database:
        text = f"SELECT * FROM {table} WHERE {where} ORDER BY id LIMIT 100"
        found = database.execute(text, list(kept.values())).fetchall()
    return [{k: v for k, v in dict(row).items() if k != "customer_id" and v is not None} for row in found]


def _items(rows: list[Row]) -> Row:
    return {"items": rows, "count": len(rows)}


def _change(table: str, number: int, **changes: Any) -> Row:
    kept = {name: value for name, value in changes.items() if value is not None}
    names = ", ".join(f"{name} = ?" for name in kept)
    with _database() as database:
        database.execute(f"UPDATE {table} SET {names} WHERE id = ?", [*kept.values(), number])
    return {"changed": 1, "id": number, **kept}


def _next(customer_id, appointment_id=None, service=None, date=None) -> Row | None:
    """The booked appointment that is meant: by number, or the first that fits."""
    number = "".join(char for char in str(appointment_id or "") if char.isdigit())
    found = _rows(
        "appointment", customer_id=customer_id, state="booked", service=service, date=date,
        id=int(number) if number else None,
    )  # fmt: skip
    return found[0] if found else None


def check_availability(date, time=None, part_of_day=None, service=None, staff=None, party_size=1):
    """Free hours of a day; nobody works on Sundays."""
    if dt.date.fromisoformat(date).weekday() == 6:
        return _items([])
    people = SERVICES[service][2] if service else tuple(LANGUAGES)
    people = tuple(name for name in people if staff in (None, name))
    hours = [int(time[:2])] if time else list(PARTS.get(part_of_day, HOURS))
    taken = {(row["time"][:2], row.get("staff")) for row in _rows("appointment", date=date, state="booked")}
    free = [
        {"date": date, "time": f"{hour:02d}:00", "staff": name}
        for hour in hours
        if hour in HOURS
        for name in people
        if (f"{hour:02d}", name) not in taken
    ]
    return _items(free if len(people) >= party_size else [])


def create(service, date, time, staff=None, party_size=1, notes=None, customer_id=None):
    return _add("appointment", customer_id=customer_id, service=service, date=date, time=time,
                staff=staff or SERVICES[service][2][0], party_size=party_size, notes=notes,
                state="booked")  # fmt: skip


def reschedule(
    new_date, appointment_id=None, service=None, current_date=None, new_time=None, customer_id=None
):
    row = _next(customer_id, appointment_id, service, current_date)
    return {"changed": 0} if row is None else _change("appointment", row["id"], date=new_date, time=new_time)


def cancel(appointment_id=None, service=None, date=None, reason=None, customer_id=None):
    row = _next(customer_id, appointment_id, service, date)
    return (
        {"changed": 0} if row is None else _change("appointment", row["id"], state="cancelled", notes=reason)
    )


def list_appointments(period=None, date=None, service=None, customer_id=None):
    return _items(_rows("appointment", customer_id=customer_id, state="booked", date=date, service=service))


def join_waiting_list(service, date, part_of_day=None, staff=None, phone=None, customer_id=None):
    return _add("waiting", customer_id=customer_id, service=service, date=date, part_of_day=part_of_day,
                staff=staff, phone=phone)  # fmt: skip


def leave_waiting_list(service=None, date=None, customer_id=None):
    found = _rows("waiting", customer_id=customer_id, service=service, date=date)
    with _database() as database:
        database.executemany("DELETE FROM waiting WHERE id = ?", [(row["id"],) for row in found])
    return {"changed": len(found)}


def list_services(category=None):
    return _items(
        [
            {"service": name, "price": price}
            for name, (kind, price, _) in SERVICES.items()
            if category in (None, kind)
        ]
    )


def price(service, hair_length=None, staff=None):
    extra = LENGTHS[hair_length] if hair_length and SERVICES[service][0] == "hair" else 0
    return {"service": service, "price": SERVICES[service][1] + extra, "currency": "EUR"}


def find_staff(staff=None, service=None, language=None):
    return _items(
        [
            {
                "staff": name,
                "languages": list(spoken),
                "services": [s for s, v in SERVICES.items() if name in v[2]],
            }
            for name, spoken in LANGUAGES.items()
            if staff in (None, name)
            and (service is None or name in SERVICES[service][2])
            and (language is None or language in spoken)
        ]
    )


def hours(date=None):
    closed = date is not None and dt.date.fromisoformat(date).weekday() == 6
    return {"date": date, "open": None if closed else "10:00", "close": None if closed else "20:00"}


def directions(topic=None, origin=None, transport=None):
    return {"topic": topic or "address", "text": PLACES[topic or "address"]}


def policy(topic):
    return {"topic": topic, "text": POLICIES[topic]}


def buy_voucher(amount, recipient_name=None, recipient_email=None, message=None, customer_id=None):
    return _add("voucher", customer_id=customer_id, amount=amount, recipient_name=recipient_name,
                recipient_email=recipient_email, message=message)  # fmt: skip


def leave_feedback(rating, comment=None, staff=None, service=None, customer_id=None):
    return _add(
        "feedback", customer_id=customer_id, rating=rating, comment=comment, staff=staff, service=service
    )


def update_phone(phone, customer_id=None):
    return _add("contact", customer_id=customer_id, phone=phone)


def update_email(email, customer_id=None):
    return _add("contact", customer_id=customer_id, email=email)


def set_reminder(channel, hours_before=24, customer_id=None):
    return _add("reminder", customer_id=customer_id, channel=channel, hours_before=hours_before)
