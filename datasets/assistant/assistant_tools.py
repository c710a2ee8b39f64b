"""The assistant's tools: plain functions over one SQLite file, so that the whole set runs on a laptop.

The file is ``$ASSISTANT_DB``, or ``assistant.sqlite`` beside this module; ``use(path)`` names another.
Today is ``$ASSISTANT_TODAY`` (YYYY-MM-DD), or the clock's. A new file starts with invented entries around
today. Functions that read give ``{"items": [...], "count": n}``, functions that write give the row that
they wrote or ``{"changed": n}``. Nothing leaves this machine: sending a message writes a row.
"""

from __future__ import annotations

import datetime as dt
import os
import sqlite3
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TABLES = {
    "event": "title, date, start, duration_minutes, location",
    "reminder": "text, date, time",
    "alarm": "time, date",
    "timer": "minutes, label",
    "entry": "project, note, start, hours, date",
    "task": "title, due_date, priority, project, done",
    "note": "text, tag",
    "habit": "habit, date",
    "goal": "title, target, deadline, progress",
    "diary": "text, mood, date",
    "expense": "amount, currency, category, date, note",
    "bill": "name, amount, due_date, paid",
    "budget": "category, amount, currency",
    "account": "account, balance, currency",
    "transfer": "recipient, amount, currency, note, date",
    "subscription": "service, price, currency, active",
    "message": "person, text, channel, outgoing",
    "email": "person, subject, body, outgoing, unread, archived, date",
    "call": "who, date, missed",
    "contact": "name, phone, email, address, birthday",
    "gift": "person, idea, max_price",
    "pet": "pet, topic, value, date",
    "care": "pet, activity, time",
    "document": "title, author, body",
    "share": "document, person, permission",
    "file": "name, kind",
    "link": "url, label",
    "hint": "account, hint",
    "minutes": "meeting, text, date",
    "deal": "client, value, currency, stage",
    "invoice": "number, client, amount, currency, concept, due_date, status",
    "invoice_reminder": "client, invoice_number",
    "ticket": "subject, customer, priority, status",
    "stock": "item, warehouse, quantity",
    "order_line": "item, quantity",
    "sale": "date, region, product, salesperson, amount",
    "survey": "topic, questions, audience, answers",
    "leave": "start_date, end_date, kind",
    "colleague": "person, date, busy",
    "medicine": "medicine, time",
    "dose": "medicine, time",
    "workout": "activity, minutes, distance_km, date",
    "sleep": "hours, quality, date",
    "shopping": "item, quantity",
    "device": "device, state, room, degrees",
    "package": "tracking_number, sender, status, date",
    "trip": "destination, date, what",
    "service": "part, due_date",
    "fuel": "liters, cost, odometer",
    "playlist": "name, mood",
    "played": "query",
}
CATEGORIES = ("groceries", "restaurants", "transport", "housing", "health", "leisure", "clothes", "other")
# Units of each currency for one euro: invented, fixed.
RATES = {
    "EUR": 1.0, "USD": 1.1, "GBP": 0.85, "MXN": 20.0, "EGP": 52.0, "SAR": 4.1, "AED": 4.0, "JPY": 160.0,
}  # fmt: skip
Row = dict[str, Any]
_lock = threading.RLock()
_opened: dict[str, sqlite3.Connection] = {}
_path: Path | None = None


# --- the file --------------------------------------------------------------------------------


def use(path: str | Path) -> None:
    """Keep the rows in another file from now on."""
    global _path
    _path = Path(path)


def today() -> dt.date:
    """Return the day that "this week" is counted from."""
    given = os.environ.get("ASSISTANT_TODAY")
    return dt.date.fromisoformat(given) if given else dt.date.today()


@contextmanager
def _database() -> Iterator[sqlite3.Connection]:
    path = str(_path or os.environ.get("ASSISTANT_DB") or Path(__file__).parent / "assistant.sqlite")
    with _lock:
        if path not in _opened:
            _opened[path] = _open(path)
        with _opened[path]:
            yield _opened[path]


def _open(path: str) -> sqlite3.Connection:
    new = not Path(path).exists()
    database = sqlite3.connect(path, check_same_thread=False)
    database.row_factory = sqlite3.Row
    database.create_function("folded", 1, _folded, deterministic=True)
    for table, columns in TABLES.items():
        database.execute(f'CREATE TABLE IF NOT EXISTS "{table}" (id INTEGER PRIMARY KEY, user_id, {columns})')
    if new:
        from_today = today()
        for table, rows in _seeds(from_today).items():
            for row in rows:
                _insert(database, table, {"user_id": "demo", **row})
    database.commit()
    return database


def _folded(value: Any) -> str:
    """Text without case, accents and marks, for comparison."""
    text = unicodedata.normalize("NFKD", str(value or "")).casefold()
    return "".join(char for char in text if not unicodedata.combining(char))


def _insert(database: sqlite3.Connection, table: str, row: Row) -> int:
    names = ", ".join(row)
    marks = ", ".join("?" * len(row))
    return (
        database.execute(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', list(row.values())).lastrowid
        or 0
    )


def _add(table: str, user_id: str | None, **row: Any) -> Row:
    with _database() as database:
        number = _insert(database, table, {"user_id": user_id, **row})
    return {"id": number, **{name: value for name, value in row.items() if value is not None}}


def _where(user_id: str | None, given: Row, like: Row) -> tuple[str, list[Any]]:
    tests, values = ["user_id IS ?"], [user_id]
    for name, value in given.items():
        if value is not None:
            tests.append(f"{name} IS ?")
            values.append(value)
    for name, value in like.items():
        for word in _folded(value).split():
            tests.append(f"instr(folded({name}), ?)")
            values.append(word)
    return " AND ".join(tests), values


def _list(
    table: str,
    user_id: str | None,
    *,
    like: Row | None = None,
    between: tuple[str, tuple[dt.date, dt.date] | None] | None = None,
    **given: Any,
) -> Row:
    where, values = _where(user_id, given, like or {})
    if between is not None and between[1] is not None:
        where += f" AND {between[0]} BETWEEN ? AND ?"
        values += [day.isoformat() for day in between[1]]
    with _database() as database:
        found = database.execute(
            f'SELECT * FROM "{table}" WHERE {where} ORDER BY id LIMIT 100', values
        ).fetchall()
    items = [{k: row[k] for k in row.keys() if k != "user_id" and row[k] is not None} for row in found]  # noqa: SIM118
    return {"items": items, "count": len(items)}


def _change(table: str, user_id: str | None, like: Row, changes: Row, **given: Any) -> Row:
    changes = {name: value for name, value in changes.items() if value is not None}
    where, values = _where(user_id, given, like)
    with _database() as database:
        row = database.execute(
            f'SELECT id FROM "{table}" WHERE {where} ORDER BY id LIMIT 1', values
        ).fetchone()
        if row is None:
            return {"changed": 0}
        names = ", ".join(f"{name} = ?" for name in changes)
        if names:
            database.execute(f'UPDATE "{table}" SET {names} WHERE id = ?', [*changes.values(), row["id"]])
    return {"changed": 1, "id": row["id"], **changes}


def _drop(table: str, user_id: str | None, like: Row, **given: Any) -> Row:
    where, values = _where(user_id, given, like)
    with _database() as database:
        row = database.execute(
            f'SELECT id FROM "{table}" WHERE {where} ORDER BY id LIMIT 1', values
        ).fetchone()
        if row is not None:
            database.execute(f'DELETE FROM "{table}" WHERE id = ?', [row["id"]])
    return {"changed": 0 if row is None else 1}


def _days(name: str | None) -> tuple[dt.date, dt.date] | None:
    """First and last day of a named stretch of time."""
    now = today()
    week = now - dt.timedelta(days=now.weekday())
    month = now.replace(day=1)
    next_month = (month + dt.timedelta(days=32)).replace(day=1)
    day, last = dt.timedelta(days=1), (month - dt.timedelta(days=1))
    return {
        "today": (now, now),
        "yesterday": (now - day, now - day),
        "this_week": (week, week + 6 * day),
        "last_week": (week - 7 * day, week - day),
        "next_week": (week + 7 * day, week + 13 * day),
        "weekend": (week + 5 * day, week + 6 * day),
        "this_month": (month, next_month - day),
        "last_month": (last.replace(day=1), last),
        "next_month": (next_month, (next_month + dt.timedelta(days=32)).replace(day=1) - day),
        "this_year": (now.replace(month=1, day=1), now.replace(month=12, day=31)),
    }.get(name or "")


def _day(date: str | None) -> str:
    return date or today().isoformat()


# --- time ------------------------------------------------------------------------------------


def create_event(title, date, start=None, duration_minutes=60, location=None, user_id=None):
    return _add("event", user_id, title=title, date=date, start=start,
                duration_minutes=duration_minutes, location=location)  # fmt: skip


def delete_event(event, date=None, user_id=None):
    return _drop("event", user_id, {"title": event}, date=date)


def move_event(event, date=None, start=None, user_id=None):
    return _change("event", user_id, {"title": event}, {"date": date, "start": start})


def list_events(date=None, range=None, user_id=None):
    return _list("event", user_id, between=("date", _days(range)), date=date)


def find_free_time(date, duration_minutes=60, user_id=None):
    """Hours between 9 and 18 that start a long enough gap."""
    taken = []
    for event in list_events(date=date, user_id=user_id)["items"]:
        if event.get("start"):
            begin = int(event["start"][:2]) * 60 + int(event["start"][3:5])
            taken.append((begin, begin + int(event.get("duration_minutes") or 60)))
    free = [
        f"{start // 60:02d}:{start % 60:02d}"
        for start in range(9 * 60, 18 * 60 - duration_minutes + 1, 30)
        if all(start + duration_minutes <= begin or start >= end for begin, end in taken)
    ]
    return {"items": [{"date": date, "start": start} for start in free], "count": len(free)}


def create_reminder(text, date=None, time=None, user_id=None):
    return _add("reminder", user_id, text=text, date=date, time=time)


def list_reminders(date=None, user_id=None):
    return _list("reminder", user_id, date=date)


def delete_reminder(text, user_id=None):
    return _drop("reminder", user_id, {"text": text})


def set_alarm(time, date=None):
    return _add("alarm", None, time=time, date=date)


def start_timer(minutes, label=None):
    return _add("timer", None, minutes=minutes, label=label)


def start_entry(project, note=None, user_id=None):
    return _add("entry", user_id, project=project, note=note, start="now", date=_day(None))


def stop_entry(user_id=None):
    return _change("entry", user_id, {}, {"start": "stopped", "hours": 1.0}, start="now")


def summarize_hours(project=None, period=None, user_id=None):
    found = _list("entry", user_id, like={"project": project}, between=("date", _days(period)))
    return {**found, "hours": sum(item.get("hours", 0) for item in found["items"])}


# --- tasks, notes, goals ---------------------------------------------------------------------


def add_task(title, due_date=None, priority="medium", project=None, user_id=None):
    return _add("task", user_id, title=title, due_date=due_date, priority=priority, project=project, done=0)


def complete_task(title, user_id=None):
    return _change("task", user_id, {"title": title}, {"done": 1}, done=0)


def list_tasks(due_date=None, priority=None, project=None, user_id=None):
    return _list("task", user_id, like={"project": project}, due_date=due_date, priority=priority, done=0)


def create_note(text, tag=None, user_id=None):
    return _add("note", user_id, text=text, tag=tag)


def search_notes(query, user_id=None):
    return _list("note", user_id, like={"text": query})


def check_in_habit(habit, date=None, user_id=None):
    return _add("habit", user_id, habit=habit, date=_day(date))


def get_habit_streak(habit=None, user_id=None):
    return _list("habit", user_id, like={"habit": habit})


def set_goal(title, target=None, deadline=None, user_id=None):
    return _add("goal", user_id, title=title, target=target, deadline=deadline, progress=0)


def list_goals(user_id=None):
    return _list("goal", user_id)


def update_goal_progress(goal, amount, user_id=None):
    return _change("goal", user_id, {"title": goal}, {"progress": amount})


def write_journal_entry(text, mood=None, date=None, user_id=None):
    return _add("diary", user_id, text=text, mood=mood, date=_day(date))


def read_journal_entries(date=None, period=None, user_id=None):
    return _list("diary", user_id, between=("date", _days(period)), date=date)


# --- money -----------------------------------------------------------------------------------


def log_expense(amount, currency="EUR", category="other", date=None, note=None, user_id=None):
    return _add(
        "expense", user_id, amount=amount, currency=currency, category=category, date=_day(date), note=note
    )


def list_expenses(category=None, period=None, user_id=None):
    found = _list("expense", user_id, between=("date", _days(period)), category=category)
    return {**found, "total": round(sum(item["amount"] for item in found["items"]), 2)}


def delete_expense(note, amount=None, date=None, user_id=None):
    return _drop("expense", user_id, {"note": note}, amount=amount, date=date)


def add_bill(name, amount=None, due_date=None, user_id=None):
    return _add("bill", user_id, name=name, amount=amount, due_date=due_date, paid=0)


def mark_bill_paid(name, user_id=None):
    return _change("bill", user_id, {"name": name}, {"paid": 1}, paid=0)


def list_due_bills(range=None, user_id=None):
    return _list("bill", user_id, between=("due_date", _days(range)), paid=0)


def set_budget(category, amount, currency="EUR", user_id=None):
    changed = _change("budget", user_id, {}, {"amount": amount, "currency": currency}, category=category)
    if changed["changed"]:
        return changed
    return _add("budget", user_id, category=category, amount=amount, currency=currency)


def check_budget(category=None, user_id=None):
    found = _list("budget", user_id, category=category)
    for item in found["items"]:
        spent = list_expenses(category=item["category"], period="this_month", user_id=user_id)["total"]
        item |= {"spent": spent, "left": round(item["amount"] - spent, 2)}
    return found


def get_balance(account=None, user_id=None):
    return _list("account", user_id, account=account)


def send_money(to, amount, currency="EUR", note=None, user_id=None):
    return _add(
        "transfer", user_id, recipient=to, amount=amount, currency=currency, note=note, date=_day(None)
    )


def list_subscriptions(user_id=None):
    return _list("subscription", user_id, active=1)


def cancel_subscription(service, user_id=None):
    return _change("subscription", user_id, {"service": service}, {"active": 0}, active=1)


def convert_amount(amount, from_currency, to_currency):
    value = round(amount / RATES[from_currency] * RATES[to_currency], 2)
    return {
        "amount": value,
        "currency": to_currency,
        "rate": round(RATES[to_currency] / RATES[from_currency], 4),
    }


# --- people ----------------------------------------------------------------------------------


def send_message(to, text, channel="whatsapp", user_id=None):
    return _add("message", user_id, person=to, text=text, channel=channel, outgoing=1)


def read_messages(sender=None, user_id=None):
    return _list("message", user_id, like={"person": sender}, outgoing=0)


def send_email(to, body, subject=None, user_id=None):
    return _add("email", user_id, person=to, subject=subject, body=body, outgoing=1, date=_day(None))


def search_email(sender=None, topic=None, unread=None, user_id=None):
    unread = None if unread is None else int(unread)
    found = _list("email", user_id, like={"person": sender}, outgoing=0, archived=0, unread=unread)
    words = _folded(topic).split()
    items = [
        m for m in found["items"] if all(w in _folded(f"{m.get('subject')} {m.get('body')}") for w in words)
    ]
    return {"items": items, "count": len(items)}


def archive_email(sender, older_than_days=None, user_id=None):
    return _change("email", user_id, {"person": sender}, {"archived": 1}, archived=0)


def place_call(who, user_id=None):
    return _add("call", user_id, who=who, date=_day(None), missed=0)


def list_missed_calls(date=None, user_id=None):
    return _list("call", user_id, missed=1, date=date)


def add_contact(name, phone=None, email=None, user_id=None):
    return _add("contact", user_id, name=name, phone=phone, email=email)


def find_contact(name, detail=None, user_id=None):
    found = _list("contact", user_id, like={"name": name})
    kept = ("name", detail) if detail else ("name", "phone", "email", "address", "birthday")
    items = [{key: item[key] for key in kept if key in item} for item in found["items"]]
    return {"items": items, "count": len(items)}


def add_gift_idea(person, idea, max_price=None, user_id=None):
    return _add("gift", user_id, person=person, idea=idea, max_price=max_price)


def list_gift_ideas(person=None, user_id=None):
    return _list("gift", user_id, like={"person": person})


# --- papers ----------------------------------------------------------------------------------


def find_document(topic, author=None, user_id=None):
    return _list("document", user_id, like={"title": topic, "author": author})


def share_document(document, with_person, permission="view", user_id=None):
    return _add("share", user_id, document=document, person=with_person, permission=permission)


def find_file(name, kind=None, user_id=None):
    return _list("file", user_id, like={"name": name}, kind=kind)


def delete_file(name, user_id=None):
    return _drop("file", user_id, {"name": name})


def save_link(url, label=None, user_id=None):
    return _add("link", user_id, url=url, label=label)


def find_link(topic, user_id=None):
    return _list("link", user_id, like={"label": topic})


def save_hint(account, hint, user_id=None):
    return _add("hint", user_id, account=account, hint=hint)


def get_hint(account, user_id=None):
    return _list("hint", user_id, like={"account": account})


def save_minutes(meeting, text, date=None, user_id=None):
    return _add("minutes", user_id, meeting=meeting, text=text, date=_day(date))


def search_minutes(topic, date=None, user_id=None):
    return _list("minutes", user_id, like={"text": topic}, date=date)


def translate_text(text, target_language):
    """There is no dictionary here: the text comes back with the language it was asked for in."""
    return {"text": text, "target_language": target_language, "translated": False}


def get_headlines(topic=None):
    topics = [topic] if topic else ["world", "business", "sports"]
    items = [{"topic": name, "headline": f"An invented headline about {name}"} for name in topics]
    return {"items": items, "count": len(items)}


# --- work ------------------------------------------------------------------------------------


def create_deal(client, value=None, currency="EUR", stage="lead", user_id=None):
    return _add("deal", user_id, client=client, value=value, currency=currency, stage=stage)


def list_deals(stage=None, client=None, user_id=None):
    return _list("deal", user_id, like={"client": client}, stage=stage)


def update_stage(client, stage, user_id=None):
    return _change("deal", user_id, {"client": client}, {"stage": stage})


def create_invoice(client, amount, currency="EUR", concept=None, due_date=None, user_id=None):
    return _add("invoice", user_id, client=client, amount=amount, currency=currency, concept=concept,
                due_date=due_date, status="draft")  # fmt: skip


def list_invoices(status=None, client=None, user_id=None):
    return _list("invoice", user_id, like={"client": client}, status=status)


def send_invoice_reminder(client, invoice_number=None, user_id=None):
    return _add("invoice_reminder", user_id, client=client, invoice_number=invoice_number)


def open_ticket(subject, customer=None, priority="normal", user_id=None):
    return _add("ticket", user_id, subject=subject, customer=customer, priority=priority, status="open")


def list_tickets(status=None, customer=None, user_id=None):
    return _list("ticket", user_id, like={"customer": customer}, status=status)


def update_ticket(ticket_id, status, user_id=None):
    number = "".join(char for char in str(ticket_id) if char.isdigit())
    return _change("ticket", user_id, {}, {"status": status}, id=int(number) if number else -1)


def check_stock(item, warehouse=None, user_id=None):
    return _list("stock", user_id, like={"item": item, "warehouse": warehouse})


def reorder_item(item, quantity, user_id=None):
    return _add("order_line", user_id, item=item, quantity=quantity)


def get_sales_report(period, group_by=None, user_id=None):
    found = _list("sale", user_id, between=("date", _days(period)))
    totals: dict[str, float] = {}
    for item in found["items"]:
        key = str(item.get(group_by)) if group_by else "all"
        totals[key] = totals.get(key, 0.0) + item["amount"]
    items = [{"group": key, "amount": value} for key, value in sorted(totals.items())]
    return {"items": items, "count": len(items)}


def create_survey(topic, questions=5, audience=None, user_id=None):
    return _add("survey", user_id, topic=topic, questions=questions, audience=audience, answers=0)


def get_survey_results(topic, user_id=None):
    return _list("survey", user_id, like={"topic": topic})


def check_team_availability(date, person=None, user_id=None):
    return _list("colleague", user_id, like={"person": person}, date=date)


def request_leave(start_date, end_date=None, kind="vacation", user_id=None):
    return _add("leave", user_id, start_date=start_date, end_date=end_date or start_date, kind=kind)


# --- body, home, pets ------------------------------------------------------------------------


def list_medication_schedule(medicine=None, user_id=None):
    return _list("medicine", user_id, like={"medicine": medicine})


def log_dose(medicine, time=None, user_id=None):
    return _add("dose", user_id, medicine=medicine, time=time)


def log_workout(activity, minutes=None, distance_km=None, date=None, user_id=None):
    return _add(
        "workout", user_id, activity=activity, minutes=minutes, distance_km=distance_km, date=_day(date)
    )


def get_workout_history(activity=None, period=None, user_id=None):
    return _list("workout", user_id, between=("date", _days(period)), activity=activity)


def log_sleep(hours, quality=None, date=None, user_id=None):
    return _add("sleep", user_id, hours=hours, quality=quality, date=_day(date))


def get_sleep(period=None, user_id=None):
    return _list("sleep", user_id, between=("date", _days(period)))


def find_recipe(query=None, diet=None, max_minutes=None):
    recipes = [
        {"name": "lentil soup", "diet": "vegan", "minutes": 35},
        {"name": "tomato omelette", "diet": "vegetarian", "minutes": 15},
        {"name": "gazpacho", "diet": "vegan", "minutes": 20},
        {"name": "rice with chicken", "diet": "gluten_free", "minutes": 50},
    ]
    words = _folded(query).split()
    items = [
        recipe
        for recipe in recipes
        if all(word in _folded(recipe["name"]) for word in words)
        and diet in (None, recipe["diet"])
        and (max_minutes is None or recipe["minutes"] <= max_minutes)
    ]
    return {"items": items, "count": len(items)}


def add_shopping_item(item, quantity=1, user_id=None):
    return _add("shopping", user_id, item=item, quantity=quantity)


def remove_shopping_item(item, user_id=None):
    return _drop("shopping", user_id, {"item": item})


def show_shopping_list(user_id=None):
    return _list("shopping", user_id)


def control_device(device, action, user_id=None):
    state = {"turn_on": "on", "turn_off": "off", "open": "open", "close": "closed", "lock": "locked"}[action]
    changed = _change("device", user_id, {"device": device}, {"state": state})
    return changed if changed["changed"] else _add("device", user_id, device=device, state=state)


def get_home_status(device=None, user_id=None):
    return _list("device", user_id, like={"device": device})


def set_temperature(degrees, room=None, user_id=None):
    changed = _change("device", user_id, {"device": "thermostat", "room": room}, {"degrees": degrees})
    return (
        changed
        if changed["changed"]
        else _add("device", user_id, device="thermostat", room=room, degrees=degrees)
    )


def get_pet_record(pet, topic=None, user_id=None):
    return _list("pet", user_id, like={"pet": pet}, topic=topic)


def log_pet_care(pet, activity, time=None, user_id=None):
    return _add("care", user_id, pet=pet, activity=activity, time=time)


# --- going places ----------------------------------------------------------------------------


def track_package(tracking_number=None, sender=None, user_id=None):
    return _list("package", user_id, like={"tracking_number": tracking_number, "sender": sender})


def reschedule_delivery(package, date, user_id=None):
    changed = _change("package", user_id, {"tracking_number": package}, {"date": date})
    return changed if changed["changed"] else _change("package", user_id, {"sender": package}, {"date": date})


def get_itinerary(destination=None, user_id=None):
    return _list("trip", user_id, like={"destination": destination})


def search_flights(destination, date, origin=None, return_date=None, passengers=1):
    """Two invented flights a day, the same ones whenever they are asked for."""
    key = sum(map(ord, f"{destination}{date}"))
    items = [
        {"flight": f"ZZ{key % 900 + 100 + i}", "destination": destination, "date": date,
         "departs": f"{7 + (key + 5 * i) % 14:02d}:15", "price": (60 + key % 90 + 25 * i) * passengers}
        for i in (0, 1)
    ]  # fmt: skip
    return {"items": items, "count": len(items)}


def search_hotels(city, check_in, nights=1, guests=1):
    key = sum(map(ord, city))
    items = [
        {"hotel": f"{name} {city}", "check_in": check_in, "price": (70 + key % 60 + 30 * i) * nights}
        for i, name in enumerate(("Station", "Garden"))
    ]
    return {"items": items, "count": len(items)}


def get_forecast(place=None, date=None):
    key = sum(map(ord, f"{place}{_day(date)}"))
    sky = ("sunny", "cloudy", "rain", "windy")[key % 4]
    return {"place": place or "here", "date": _day(date), "sky": sky, "high": 8 + key % 20, "low": key % 12}


def get_service_status(part=None, user_id=None):
    return _list("service", user_id, part=part)


def log_fuel(liters, cost=None, odometer=None, user_id=None):
    return _add("fuel", user_id, liters=liters, cost=cost, odometer=odometer)


def play_music(query):
    return _add("played", None, query=query)


def create_playlist(name, mood=None, user_id=None):
    return _add("playlist", user_id, name=name, mood=mood)


# --- what a new file holds -------------------------------------------------------------------


def _seeds(now: dt.date) -> dict[str, Sequence[Row]]:
    def day(n: int) -> str:
        return (now + dt.timedelta(days=n)).isoformat()

    return {
        "event": (
            {"title": "standup", "date": day(0), "start": "10:00", "duration_minutes": 15},
            {"title": "dentist", "date": day(1), "start": "16:30", "duration_minutes": 45},
            {"title": "lunch with Olga", "date": day(3), "start": "14:00", "location": "La Plaza"},
            {"title": "work dinner", "date": day(4), "start": "20:30", "duration_minutes": 120},
        ),
        "reminder": ({"text": "water the plants", "date": day(0), "time": "19:00"},),
        "task": (
            {"title": "slides", "due_date": day(0), "priority": "high", "project": "fair", "done": 0},
            {"title": "renew the passport", "due_date": day(12), "priority": "medium", "done": 0},
        ),
        "note": ({"text": "the boiler was last serviced in May", "tag": "home"},),
        "habit": tuple({"habit": "meditation", "date": day(-n)} for n in range(1, 6)),
        "goal": ({"title": "save for the trip", "target": 1500, "deadline": day(90), "progress": 600},),
        "diary": ({"text": "a calm day, read two chapters", "mood": "calm", "date": day(-1)},),
        "expense": (
            {"amount": 42.5, "currency": "EUR", "category": "groceries", "date": day(-1), "note": "market"},
            {"amount": 18, "currency": "EUR", "category": "restaurants", "date": day(-2), "note": "lunch"},
        ),
        "bill": (
            {"name": "electricity", "amount": 61.2, "due_date": day(2), "paid": 0},
            {"name": "rent", "amount": 850, "due_date": day(20), "paid": 0},
        ),
        "budget": tuple({"category": c, "amount": 200, "currency": "EUR"} for c in CATEGORIES),
        "account": (
            {"account": "checking", "balance": 1830.4, "currency": "EUR"},
            {"account": "savings", "balance": 5200, "currency": "EUR"},
            {"account": "credit_card", "balance": -240.9, "currency": "EUR"},
        ),
        "subscription": (
            {"service": "Filmora", "price": 9.99, "currency": "EUR", "active": 1},
            {"service": "Gym Norte", "price": 35, "currency": "EUR", "active": 1},
        ),
        "message": (
            {"person": "Olga", "text": "is friday at two fine?", "channel": "whatsapp", "outgoing": 0},
            {"person": "Maria", "text": "I have your book", "outgoing": 0},
        ),
        "email": (
            {"person": "lee@example.com", "subject": "demo", "body": "when is the demo?", "outgoing": 0,
             "unread": 1, "archived": 0, "date": day(-1)},
        ),
        "call": ({"who": "Maria", "date": day(0), "missed": 1},),
        "contact": (
            {"name": "Maria Gómez", "phone": "+34 600 000 001", "birthday": "06-04"},
            {"name": "Olga Petrova", "phone": "+34 600 000 002"},
            {"name": "خالد حسن", "phone": "+20 100 000 0003", "email": "khaled@example.com"},
        ),
        "gift": ({"person": "Maria", "idea": "a fountain pen", "max_price": 40},),
        "pet": (
            {"pet": "Rex", "topic": "vaccines", "value": "rabies", "date": day(-100)},
            {"pet": "Rex", "topic": "weight", "value": "23 kg", "date": day(-9)},
        ),
        "document": ({"title": "rental contract", "author": "agency", "body": "repairs: the landlord pays"},),
        "file": ({"name": "boarding pass", "kind": "pdf"}, {"name": "beach", "kind": "photo"}),
        "link": ({"url": "https://example.com/jams", "label": "how to make jam"},),
        "hint": ({"account": "library", "hint": "the old street"},),
        "minutes": ({"meeting": "fair", "text": "booth 12, posters by Vera", "date": day(-7)},),
        "deal": (
            {"client": "Acme", "value": 4000, "currency": "EUR", "stage": "proposal"},
            {"client": "Globex", "value": 900, "currency": "EUR", "stage": "negotiation"},
        ),
        "invoice": (
            {"number": "2026-014", "client": "Acme", "amount": 1200, "currency": "EUR", "due_date": day(-5),
             "status": "overdue"},
            {"number": "2026-015", "client": "Globex", "amount": 300, "currency": "EUR", "due_date": day(15),
             "status": "unpaid"},
        ),
        "ticket": (
            {"subject": "cannot sign in", "customer": "Acme", "priority": "urgent", "status": "open"},
            {"subject": "wrong address", "customer": "Globex", "priority": "normal", "status": "pending"},
        ),
        "stock": (
            {"item": "cloth bags", "warehouse": "north", "quantity": 40},
            {"item": "gift boxes", "warehouse": "north", "quantity": 7},
        ),
        "sale": tuple(
            {"date": day(-n), "region": r, "product": p, "salesperson": s, "amount": 100 + 10 * n}
            for n, (r, p, s) in enumerate(
                (("north", "bags", "Vera"), ("south", "boxes", "Lee"), ("north", "boxes", "Vera"),
                 ("south", "bags", "Farid")), 1
            )
        ),
        "survey": ({"topic": "fair", "questions": 5, "answers": 18},),
        "colleague": (
            {"person": "Priya", "date": day(1), "busy": "09:00-12:00"},
            {"person": "Farid", "date": day(1), "busy": ""},
        ),
        "medicine": ({"medicine": "vitamin D", "time": "08:00"},),
        "workout": (
            {"activity": "running", "minutes": 35, "distance_km": 6, "date": day(-2)},
            {"activity": "yoga", "minutes": 40, "date": day(-4)},
        ),
        "sleep": (
            {"hours": 7, "quality": "good", "date": day(-1)},
            {"hours": 5.5, "quality": "bad", "date": day(-2)},
        ),
        "shopping": ({"item": "bread", "quantity": 1}, {"item": "cheese", "quantity": 1}),
        "device": (
            {"device": "living room lamp", "state": "off", "room": "living room"},
            {"device": "thermostat", "room": "living room", "degrees": 20},
            {"device": "front door", "state": "locked"},
        ),
        "package": (
            {"tracking_number": "ES7702", "sender": "Bookshop", "status": "on its way", "date": day(3)},
        ),
        "trip": ({"destination": "Oslo", "date": day(24), "what": "flight ZZ412 at 09:15"},),
        "service": ({"part": "oil", "due_date": day(30)}, {"part": "inspection", "due_date": day(120)}),
    }  # fmt: skip
