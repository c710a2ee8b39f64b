"""Arguments that a message gives for one chosen tool, in English, Arabic and Spanish."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mono_router.extraction import extract, message_types, schema_types
from mono_router.records import Entity, Example, Memory, PastCall, Query, Tool
from mono_router.schema import check_arguments

NOW = "2026-03-10T09:30:00+01:00[Europe/Madrid]"


def make(tool_id: str, /, *required: str, system: tuple[str, ...] = (), **properties: Any) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return Tool(id=tool_id, input_schema=schema, system_arguments=system)


TEXT = {"type": "string"}
DATE = {"type": "string", "format": "date"}
TIME = {"type": "string", "format": "time"}
COUNT = {"type": "integer", "minimum": 1}

TABLE = make(
    "restaurant.book",
    "date",
    "time",
    date=DATE,
    time=TIME,
    guests={**COUNT, "description": "Number of people"},
    restaurant={**TEXT, "description": "Name of the restaurant"},
)
MESSAGE = make(
    "messages.send",
    "to",
    "text",
    to={**TEXT, "description": "recipient"},
    text={**TEXT, "description": "what to say"},
)
TRIP = make(
    "flights.search",
    "origin",
    "destination",
    origin={**TEXT, "description": "City to leave from"},
    destination={**TEXT, "description": "City to fly to"},
    departure_date=DATE,
    return_date=DATE,
    seat_class={
        "type": "string",
        "enum": ["economy", "business"],
        "x-synonyms": {"economy": ["turista", "سياحية"]},
    },
)
WORDS = make("events.find", city=TEXT, date={**TEXT, "description": "Day of the event"})
CONTACT = make(
    "contacts.add",
    "name",
    name={**TEXT, "description": "person"},
    phone=TEXT,
    email={"type": "string", "format": "email"},
)
REMINDER = make("reminders.create", "text", text={**TEXT, "description": "what to do"}, date=DATE)
LIST = Tool(
    id="shopping.add_item",
    title="Add to the shopping list",
    hints=("añade a la lista de la compra", "أضف إلى قائمة التسوق"),
    keywords={"المشتريات": 1.0},
    input_schema={"properties": {"item": {**TEXT, "description": "what to buy"}}, "required": ["item"]},
)
MEETING = Tool(
    id="calendar.create_event",
    title="Create a meeting",
    hints=("pon una reunión",),
    input_schema={
        "properties": {"title": TEXT, "date": DATE, "duration_minutes": {"type": "integer"}},
        "required": ["title", "date"],
    },
)
NAILS = make(
    "salon.book",
    service={"type": "string", "enum": ["manicure", "massage"], "x-synonyms": {"manicure": ["uñas"]}},
)
FILE = make("files.delete", "name", name={**TEXT, "description": "which file, in the user's words"})
ORDER = make("orders.track", "order_id", order_id={**TEXT, "description": "Code of the order"})
ALARM = make("alarm.set", "at", at={"type": "string", "format": "date-time"})
STAY = make(
    "hotel.book",
    "check_in",
    check_in=DATE,
    check_out=DATE,
    pets_allowed={"type": "boolean"},
    budget={"type": "number"},
)
SUM = make("math.add", "numbers", numbers={"type": "array", "items": {"type": "number"}})
INVITE = make(
    "team.invite",
    "people",
    people={"type": "array", "items": {"type": "string"}, "description": "Persons to invite"},
)
NOTE = make("notes.add", "title", title=TEXT, url={"type": "string", "format": "uri"})
TIMER = make("timers.start", "minutes", minutes={**COUNT, "description": "length in minutes"})

CASES = [
    (
        TABLE,
        "book a table for four people tomorrow at 8 pm",
        {"date": "2026-03-11", "time": "20:00", "guests": 4},
    ),
    (
        TABLE,
        "una mesa para dos personas el viernes a las nueve de la noche",
        {"date": "2026-03-13", "time": "21:00", "guests": 2},
    ),
    (TABLE, "احجز طاولة لأربعة أشخاص بكرة الساعة ٨ مساء", {"date": "2026-03-11", "time": "20:00"}),
    (
        TABLE,
        "مكان ل ٣ اشخاص بعد بكرة الساعة السابعة والنصف مساء",
        {"date": "2026-03-12", "time": "19:30", "guests": 3},
    ),
    (
        TABLE,
        "a table at The Spotted Pig on the 14th at 19:30",
        {"date": "2026-03-14", "time": "19:30", "restaurant": "The Spotted Pig"},
    ),
    (MESSAGE, "tell Ana that I'm running late", {"to": "Ana", "text": "I'm running late"}),
    (MESSAGE, "send a message to Tom saying that dinner is ready", {"to": "Tom", "text": "dinner is ready"}),
    (MESSAGE, "mándale un mensaje a Pedro diciendo que ya salí", {"to": "Pedro", "text": "ya salí"}),
    (MESSAGE, "send «see you soon» to Lucía", {"to": "Lucía", "text": "see you soon"}),
    (TRIP, "find a flight from Madrid to Cairo", {"origin": "Madrid", "destination": "Cairo"}),
    (
        TRIP,
        "fly to Cairo from Madrid in business",
        {"origin": "Madrid", "destination": "Cairo", "seat_class": "business"},
    ),
    (
        TRIP,
        "un vuelo de Madrid a Lima en turista",
        {"origin": "Madrid", "destination": "Lima", "seat_class": "economy"},
    ),
    (
        TRIP,
        "رحلة من القاهرة إلى دبي سياحية",
        {"origin": "القاهرة", "destination": "دبي", "seat_class": "economy"},
    ),
    (
        TRIP,
        "a flight from Paris to Rome on June 3 returning June 9",
        {
            "origin": "Paris",
            "destination": "Rome",
            "departure_date": "2026-06-03",
            "return_date": "2026-06-09",
        },
    ),
    (WORDS, "anything on next friday in Berlin?", {"city": "Berlin", "date": "next friday"}),
    (WORDS, "algo en Sevilla el 5 de junio", {"city": "Sevilla", "date": "5 de junio"}),
    (CONTACT, "save Tom's number: 555 0199 12", {"name": "Tom", "phone": "555 0199 12"}),
    (CONTACT, "new contact Iris Vega, iris@example.com", {"name": "Iris Vega", "email": "iris@example.com"}),
    (ORDER, "where is my order A-1183?", {"order_id": "A-1183"}),
    (ORDER, "¿dónde está el pedido 55021?", {"order_id": "55021"}),
    (ORDER, "وين طلبي رقم ٥٥٠٢١", {"order_id": "٥٥٠٢١"}),
    (ALARM, "wake me up tomorrow at 6:30 am", {"at": "2026-03-11T06:30:00+01:00"}),
    (ALARM, "wake me up at 7 am", {"at": "2026-03-11T07:00:00+01:00"}),
    (STAY, "a room from June 3 to June 9", {"check_in": "2026-06-03", "check_out": "2026-06-09"}),
    (STAY, "una habitación del 3 al 9 de junio", {"check_in": "2026-06-03", "check_out": "2026-06-09"}),
    (STAY, "غرفة من ٣ إلى ٩ يونيو", {"check_in": "2026-06-03", "check_out": "2026-06-09"}),
    (
        STAY,
        "a room tomorrow, pets allowed, $2k at most",
        {"check_in": "2026-03-11", "pets_allowed": True, "budget": 2000},
    ),
    (STAY, "a room tomorrow without pets", {"check_in": "2026-03-11", "pets_allowed": False}),
    (SUM, "add 3, 4.5 and 10", {"numbers": [3, 4.5, 10]}),
    (SUM, "suma dos, tres y cinco", {"numbers": [2, 3, 5]}),
    (SUM, "what is the total of [1, -2, 3]?", {"numbers": [1, -2, 3]}),
    (INVITE, "invite Ana, Tom and Lucía", {"people": ["Ana", "Tom", "Lucía"]}),
    (
        NOTE,
        'a note called "Ideas for May" with https://example.com/a?b=1.',
        {"title": "Ideas for May", "url": "https://example.com/a?b=1"},
    ),
    (NOTE, "add a note titled shopping list", {"title": "shopping list"}),
    (TIMER, "start a timer of 2 hours", {"minutes": 120}),
    (TIMER, "un temporizador de media hora", {"minutes": 30}),
    (TIMER, "شغل مؤقت ٢٠ دقيقة", {"minutes": 20}),
    (TIMER, "اضبط مؤقتا لعشرين دقيقة", {"minutes": 20}),
    (TIMER, "شغل مؤقت ساعتين", {"minutes": 120}),
    (dataclasses.replace(MESSAGE, hints=("أرسل رسالة",)), "أرسل لها رسالة", {"to": None, "text": None}),
    (REMINDER, "remind me tomorrow to call the bank", {"text": "call the bank", "date": "2026-03-11"}),
    (REMINDER, "recuérdame llamar al banco mañana", {"text": "llamar al banco", "date": "2026-03-11"}),
    (REMINDER, "ذكرني بالاتصال بالبنك غدا", {"text": "الاتصال بالبنك", "date": "2026-03-11"}),
    (LIST, "أضف الخبز إلى المشتريات", {"item": "الخبز"}),
    (LIST, "put bread on the list", {"item": "bread"}),
    (LIST, "añade pan a la lista", {"item": "pan"}),
    (MEETING, "book a meeting with Juan on friday", {"title": "meeting with Juan", "date": "2026-03-13"}),
    (MEETING, "pon una reunión con Juan el viernes", {"title": "reunión con Juan", "duration_minutes": None}),
    (NAILS, "quiero dejar una reseña", {"service": None}),
    (NAILS, "quiero las uñas", {"service": "manicure"}),
    (FILE, "delete the file budget.xlsx", {"name": "budget.xlsx"}),
]


@pytest.mark.parametrize(("tool", "message", "expected"), CASES, ids=[case[1] for case in CASES])
def test_arguments(tool: Tool, message: str, expected: dict[str, Any]) -> None:
    """What the message says is found, with the right value."""
    found = extract(Query(message=message, now=NOW), tool).arguments
    assert {name: found.get(name) for name in expected} == expected


def test_missing_lists_required_gaps_as_pointers() -> None:
    """Required gaps are named, optional ones are not, and no default is invented."""
    tool = make("t", "a/b", "day", **{"a/b": TEXT, "day": DATE, "size": {"type": "integer", "default": 3}})
    filled = extract(Query(message="hello", now=NOW), tool)
    assert (dict(filled.arguments), filled.missing) == ({}, ("/a~1b", "/day"))


def test_without_properties_nothing_is_read() -> None:
    """A tool without arguments takes none."""
    assert extract(Query(message="tomorrow at 5 for 3 people"), Tool(id="t")).arguments == {}


def test_system_and_sensitive_arguments_are_never_filled() -> None:
    """The host fills its own arguments, and a credential is never read from a message."""
    tool = make("t", "day", day=DATE, user_id=TEXT, password=TEXT, system=("user_id",))
    message = "tomorrow, user_id A-113, my password is hunter2"
    assert extract(Query(message=message, now=NOW), tool).arguments == {"day": "2026-03-11"}


def test_without_now_no_relative_date_is_read() -> None:
    """A relative day has no value when nobody knows what day it is."""
    assert extract(Query(message="tomorrow at 17:30"), TABLE).arguments == {"time": "17:30"}


def test_value_outside_the_schema_is_dropped() -> None:
    """Bounds, patterns and further keywords of the schema are kept."""
    tool = make(
        "t",
        n={"type": "integer", "maximum": 5},
        code={**TEXT, "pattern": "^[A-Z]-\\d+$"},
        m={"type": "integer", "multipleOf": 7},
    )
    assert extract(Query(message="code A-113 and 9"), tool).arguments.get("code") == "A-113"
    assert (
        "n"
        not in extract(Query(message="give me 9"), make("t", n={"type": "integer", "maximum": 5})).arguments
    )
    assert (
        "m"
        not in extract(
            Query(message="give me 9"), make("t", m={"type": "integer", "multipleOf": 7})
        ).arguments
    )


def test_stated_hours_decide_between_morning_and_evening() -> None:
    """ "at 5" means 17:00 where the property says that the place is open from 10:00 to 20:00."""
    tool = make("t", time={**TIME, "description": "Clock time; open 10:00 to 20:00"})
    assert extract(Query(message="at 5", now=NOW), tool).arguments == {"time": "17:00"}
    assert extract(Query(message="at 5 am", now=NOW), tool).arguments == {"time": "05:00"}


def test_values_of_examples_are_known() -> None:
    """A value that an example names is found in a message without a cue."""
    tool = Tool(
        id="t",
        input_schema={"properties": {"dish": TEXT}},
        examples=(Example(message="cook pad thai", arguments={"dish": "pad thai"}),),
    )
    assert extract(Query(message="we fancy pad thai tonight", now=NOW), tool).arguments == {
        "dish": "pad thai"
    }


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("at 5 pm please", {"date": "2026-03-12", "time": "17:00"}),
        ("a las 5 de la tarde", {"date": "2026-03-12", "time": "17:00"}),
        ("الساعة ٥ مساء", {"date": "2026-03-12", "time": "17:00"}),
    ],
)
def test_answer_fills_the_pending_call(message: str, expected: dict[str, Any]) -> None:
    """Arguments of the pending call are kept, and the message gives what it lacked."""
    memory = Memory(turn=1, pending=PastCall(tool=TABLE.id, arguments={"date": "2026-03-12"}, turn=1))
    filled = extract(Query(message=message, now=NOW, memory=memory), TABLE)
    assert (filled.arguments, filled.missing) == (expected, ())


@pytest.mark.parametrize(
    ("tool", "given", "message", "name", "value"),
    [
        (MESSAGE, {"text": "hi"}, "Maria", "to", "Maria"),
        (MESSAGE, {"text": "hi"}, "a María, por favor", "to", "María"),
        (TABLE, {"time": "20:00"}, "the 14th", "date", "2026-03-14"),
        (ORDER, {}, "it is A-113", "order_id", "A-113"),
    ],
)
def test_bare_answer(tool: Tool, given: dict[str, Any], message: str, name: str, value: str) -> None:
    """A bare name, date or code answers the first open argument."""
    memory = Memory(turn=1, pending=PastCall(tool=tool.id, arguments=given, turn=1))
    filled = extract(Query(message=message, now=NOW, memory=memory), tool)
    assert filled.arguments[name] == value


@pytest.mark.parametrize(
    ("message", "expected"),
    [("Maria", {"to": "Maria"}), ("خالد", {"to": "خالد"})],
)
def test_a_bare_name_is_read_once(message: str, expected: dict[str, Any]) -> None:
    """What answers the first question is no answer to the second as well."""
    memory = Memory(turn=1, pending=PastCall(tool=MESSAGE.id, arguments={}, turn=1))
    assert extract(Query(message=message, now=NOW, memory=memory), MESSAGE).arguments == expected


@pytest.mark.parametrize("message", ["tomorrow at 5", "mañana a las 5", "غدا الساعة ٥"])
def test_a_day_and_a_time_are_no_title(message: str) -> None:
    """Words that were read as a date answer nothing else."""
    memory = Memory(turn=1, pending=PastCall(tool=MEETING.id, arguments={}, turn=1))
    filled = extract(Query(message=message, now=NOW, memory=memory), MEETING)
    assert (filled.arguments, filled.missing) == ({"date": "2026-03-11"}, ("/title",))


def test_articles_point_back_to_nothing() -> None:
    """The "la" of "a la una" and the "that" of a clause bring no place into a call."""
    memory = Memory(turn=1, entities=(Entity(type="place", value="Sevilla", turn=1),))
    event = make("calendar.add", "title", title=TEXT, location=TEXT)
    for message in ("comida el viernes a la una", "note that the code is new"):
        assert "location" not in extract(Query(message=message, now=NOW, memory=memory), event).arguments


def test_a_second_request_takes_no_text_of_the_first() -> None:
    """ "also put eggs on it" asks for eggs, whatever was asked for before."""
    last = PastCall(tool=LIST.id, arguments={"item": "milk"}, turn=1)
    memory = Memory(turn=1, calls=(last,), entities=(Entity(type="item", value="milk", turn=1),))
    filled = extract(Query(message="also put eggs on it", now=NOW, memory=memory), LIST)
    assert filled.arguments == {"item": "eggs"}


def test_memory_fills_what_the_message_refers_to() -> None:
    """A person mentioned before is the recipient; a secret entity is not."""
    person = Entity(type="person", value="Maria", turn=1)
    memory = Memory(turn=2, entities=(person, Entity(type="person", value="Root", turn=2, secret=True)))
    filled = extract(Query(message="send her a message: see you at noon", now=NOW, memory=memory), MESSAGE)
    assert filled.arguments["to"] == "Maria"


def test_follow_up_repeats_the_last_call() -> None:
    """ "and on saturday?" changes the day and keeps the rest."""
    last = PastCall(tool=TABLE.id, arguments={"date": "2026-03-12", "time": "20:00"}, turn=1)
    for message in ("and on saturday?", "¿y el sábado?", "والسبت؟"):
        filled = extract(Query(message=message, now=NOW, memory=Memory(turn=1, calls=(last,))), TABLE)
        assert filled.arguments == {"date": "2026-03-14", "time": "20:00"}, message


def test_types_of_messages_and_tools_share_their_words() -> None:
    """A ranker can compare what a message carries with what a tool asks for."""
    assert message_types("mail ana@example.com tomorrow for 3 people", NOW) == {"email", "date", "number"}
    assert message_types("hello") == frozenset()
    assert schema_types(TABLE) >= {"date", "time", "number"}
    assert schema_types(TABLE, required=True) == {"date", "time"}
    assert schema_types(Tool(id="t")) == frozenset()


def test_import_loads_nothing_heavy() -> None:
    """Neither dateparser nor jsonschema is imported before it is needed."""
    heavy = ("dateparser", "jsonschema", "numpy")
    code = f"import sys, mono_router.extraction; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


TOOLS = (TABLE, MESSAGE, TRIP, WORDS, CONTACT, ORDER, ALARM, STAY, SUM, INVITE, NOTE, TIMER)
PIECES = sorted({word for _, message, _ in CASES for word in message.split()})
MESSAGES = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join))
SCHEMAS = st.dictionaries(
    st.sampled_from(
        (
            "date",
            "start_time",
            "end_time",
            "to",
            "from_city",
            "count",
            "apiKey",
            "password",
            "note",
            "is_new",
            "tags",
        )
    ),
    st.sampled_from(
        (
            TEXT,
            DATE,
            TIME,
            COUNT,
            {"type": "boolean"},
            {"type": "number", "maximum": 10},
            {"enum": ["a", 1, None, True]},
            {"type": ["string", "null"], "maxLength": 5},
            {"type": "array", "items": {"type": "string"}, "maxItems": 2},
            {"type": "object"},
            {"type": "string", "format": "date-time"},
            {"type": "string", "pattern": "["},
            {},
            True,
            {"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 4}]},
            {"type": "integer", "enum": [1, 2, 3]},
        )
    ),
    max_size=5,
)


@settings(max_examples=150, deadline=None)
@given(message=MESSAGES, tool=st.sampled_from(TOOLS), now=st.sampled_from((None, NOW)))
def test_any_message_gives_valid_arguments(message: str, tool: Tool, now: str | None) -> None:
    """No message raises, and what comes out passes the check that a model's answer has to pass."""
    filled = extract(Query(message=message, now=now), tool)
    assert check_arguments(tool, filled.arguments) == ()
    assert set(filled.missing) == {f"/{name}" for name in tool.required if name not in filled.arguments}


@settings(max_examples=150, deadline=None)
@given(message=MESSAGES, properties=SCHEMAS, data=st.data())
def test_any_schema(message: str, properties: dict[str, Any], data: st.DataObject) -> None:
    """Any schema is served: valid, never a sensitive argument, whatever the order of its properties."""
    names = data.draw(st.permutations(list(properties)))
    tool = Tool(id="t", input_schema={"properties": properties, "required": list(properties)[:1]})
    turned = Tool(
        id="t",
        input_schema={"properties": {n: properties[n] for n in names}, "required": list(properties)[:1]},
    )
    query = Query(message=message, now=NOW)
    filled = extract(query, tool)
    assert filled == extract(query, turned)
    assert not {"apiKey", "password"} & set(filled.arguments)
    if not any(isinstance(sub, dict) and sub.get("pattern") == "[" for sub in properties.values()):
        assert check_arguments(tool, filled.arguments) == ()


@given(
    st.lists(
        st.sampled_from(
            ["ذكرني", "بـ", "ـ", "ً", "ـــ", "أرسل", "إلى", "لـ", "remind me to", "recuérdame", "send", "َ"]
        ),
        min_size=1,
        max_size=7,
    )
)
def test_marks_that_stand_alone(parts: list[str]) -> None:
    """A tatweel or a vowel mark that is a word by itself says nothing, and breaks nothing."""
    from mono_router.runtime.mentions import from_message

    properties = {name: {"type": "string"} for name in ("text", "title", "to", "reminder")}
    tool = Tool(id="notes.remind", description="Remind", input_schema={"properties": properties})
    message = " ".join(parts)
    assert set(extract(Query(message=message), tool).arguments) <= set(properties)
    from_message(message, None)
