"""OpenAPI 3.x documents to catalog records: one tool for each operation.

The schema of a tool joins the operation's parameters and the properties of its JSON body; ``run.http``
says where each goes, so that the tool can run where the host allows it. What has no place here is told
in a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mono_router.importers import MAX_ID, Imported, Notes, fitted, with_fitting_ids
from mono_router.reading import CatalogError
from mono_router.schema import pointer_parts

METHODS = ("get", "head", "options", "post", "put", "patch", "delete", "trace")
FORM, PARTS = "application/x-www-form-urlencoded", "multipart/form-data"
READ_ONLY = ("get", "head", "options")
GROUPS = {"path": "path", "query": "query", "header": "headers"}
_ROOT = "#/components/schemas/"
_SCHEMA_KEYS = {
    "nullable", "example", "xml", "externalDocs", "discriminator", "exclusiveMinimum", "exclusiveMaximum",
}  # fmt: skip
_NAMED = ("properties", "patternProperties")
_VALUES = ("default", "enum", "const", "examples")


def read_openapi(source: Any) -> Imported:
    """Return the operations of an OpenAPI 3.x document.

    Raises
    ------
    CatalogError
        If it is no OpenAPI 3.x document, or a reference leads nowhere; all problems at once.

    >>> paths = {"/pets/{id}": {"get": {"operationId": "getPet", "parameters": [
    ...     {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}]}}}
    >>> found = read_openapi({"openapi": "3.1.0", "servers": [{"url": "https://api.example.com"}],
    ...                       "paths": paths})
    >>> found.records[0]["id"], found.records[0]["run"]["http"]["url"]
    ('getPet', 'https://api.example.com/pets/{id}')
    """
    version = str(source.get("openapi", "")) if isinstance(source, Mapping) else ""
    if not version.startswith("3."):
        older = source.get("swagger") if isinstance(source, Mapping) else None
        got = f"Swagger {older}, convert it first" if older else f"openapi {version or 'nothing'!r}"
        raise CatalogError([f"an OpenAPI 3.x document is needed, got {got}"])
    return _Document(source).read()


class _Document:
    """Reads one document."""

    def __init__(self, source: Mapping[str, Any]) -> None:
        self.source = source
        self.notes = Notes()
        self.problems: list[str] = []

    def read(self) -> Imported:
        records = []
        skills: dict[str, str] = {
            _skill_id(str(tag["name"])): str(tag.get("description") or tag["name"])
            for tag in self.source.get("tags") or ()
            if isinstance(tag, Mapping) and tag.get("name")
        }
        for path, method, item, operation in self._operations():
            records.append(self._record(path, method, item, operation))
        if self.problems:
            raise CatalogError(self.problems)
        used = {record["skill"] for record in records if "skill" in record}
        return Imported(
            tuple(with_fitting_ids(records, self.notes)),
            self.notes.all(),
            tuple({"id": name, "description": skills.get(name) or name} for name in sorted(used)),
        )

    def _operations(self) -> Iterator[tuple[str, str, Mapping[str, Any], Mapping[str, Any]]]:
        paths = self.source.get("paths") or {}
        for path, raw in paths.items() if isinstance(paths, Mapping) else ():
            item = self.resolved(raw, str(path))
            for method in METHODS:
                if isinstance(item.get(method), Mapping):
                    yield str(path), method, item, item[method]

    def _record(
        self, path: str, method: str, item: Mapping[str, Any], operation: Mapping[str, Any]
    ) -> dict[str, Any]:
        name = operation.get("operationId") or f"{method}_{path.strip('/')}"
        summary, description = operation.get("summary") or "", operation.get("description") or ""
        record: dict[str, Any] = {"id": str(name), "description": str(description or summary or name)}
        if summary and description:
            record["title"] = str(summary)
        record["effects"] = "read" if method in READ_ONLY else "write"
        if method == "delete":
            record["confirm"] = True
        tags = operation.get("tags") or ()
        if tags:
            record["skill"] = _skill_id(str(tags[0]))
        if operation.get("deprecated"):
            self.notes.count(str(name), "is marked as deprecated")
        properties: dict[str, Any] = {}
        required: list[str] = []
        groups: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "headers": {}, "body": {}}
        self._parameters(str(name), item, operation, properties, required, groups)
        body_type = self._body(str(name), operation, properties, required, groups)
        if properties:
            record["input_schema"] = self._schema(properties, required)
        http: dict[str, Any] = {"method": method.upper(), "url": self._url(path, item, operation, str(name))}
        http |= {group: mapped for group, mapped in groups.items() if mapped}
        auth = self._auth(str(name), operation)
        if auth:
            http["auth"] = auth
        if body_type == "form":
            http["body_type"] = body_type
        if body_type:
            record["run"] = {"http": http}
        return record

    def _parameters(
        self,
        name: str,
        item: Mapping[str, Any],
        operation: Mapping[str, Any],
        properties: dict[str, Any],
        required: list[str],
        groups: dict[str, dict[str, Any]],
    ) -> None:
        found: dict[tuple[str, str], Mapping[str, Any]] = {}
        for raw in [*(item.get("parameters") or ()), *(operation.get("parameters") or ())]:
            parameter = self.resolved(raw, name)
            found[str(parameter.get("name")), str(parameter.get("in"))] = parameter
        for (argument, place), parameter in found.items():
            if place not in GROUPS:
                self.notes.say(name, f"left out: {place} parameter {argument}")
                continue
            made = argument if argument not in properties else f"{place}_{argument}"
            schema = dict(parameter.get("schema") or next(iter(_media(parameter)), {}))
            if parameter.get("description") and "description" not in schema:
                schema["description"] = parameter["description"]
            properties[made] = schema
            if parameter.get("required"):
                required.append(made)
            groups[GROUPS[place]][argument] = {"argument": made}

    def _body(
        self,
        name: str,
        operation: Mapping[str, Any],
        properties: dict[str, Any],
        required: list[str],
        groups: dict[str, dict[str, Any]],
    ) -> str:
        """Add the fields of the body and return its type; "" where it cannot be sent from here."""
        if not operation.get("requestBody"):
            return "json"
        body = self.resolved(operation["requestBody"], name)
        content = body.get("content") or {}
        kind = next((k for k in content if re.fullmatch(r"application/(.+\+)?json.*", str(k))), None)
        body_type = "json"
        if kind is None:
            kind = next((k for form in (FORM, PARTS) for k in content if str(k).startswith(form)), None)
            if kind is None:
                self.notes.count(name, f"left out: a body of {', '.join(map(str, content)) or 'no type'}")
                return "json"
            body_type = "form" if str(kind).startswith(FORM) else ""
        if not body_type:
            self.notes.count(
                name, f"a body of {kind} is not sent from here: its fields are kept, run is left out"
            )
        schema = self._flattened(content[kind].get("schema") or {}, name)
        fields = schema.get("properties")
        if not isinstance(fields, Mapping) or not fields:
            self.notes.count(name, "left out: a body that is no object with named properties")
            return body_type
        needed = schema.get("required") or ()
        for field, sub in fields.items():
            made = field if field not in properties else f"body_{field}"
            properties[made] = dict(sub) if isinstance(sub, Mapping) else {}
            groups["body"][field] = {"argument": made}
            if field in needed and body.get("required", True):
                required.append(made)
        return body_type

    def _flattened(self, schema: Any, name: str) -> dict[str, Any]:
        """An object schema with what it references and joins (``allOf``) drawn into one."""
        schema = self.resolved(schema, name)
        found = {key: value for key, value in schema.items() if key != "allOf"}
        properties = dict(found.get("properties") or {})
        required = list(found.get("required") or ())
        for part in schema.get("allOf") or ():
            inner = self._flattened(part, name)
            properties = {**(inner.get("properties") or {}), **properties}
            required += inner.get("required") or ()
        return {**found, "properties": properties, "required": required}

    def _schema(self, properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
        definitions: dict[str, Any] = {}
        schema = {
            "type": "object",
            "properties": {name: self._converted(sub, definitions) for name, sub in properties.items()},
            "required": required,
            "additionalProperties": False,
        }
        return {**schema, "$defs": definitions} if definitions else schema

    def _converted(self, schema: Any, definitions: dict[str, Any]) -> Any:
        """A schema in JSON Schema's words, what it references gathered in ``$defs``."""
        if isinstance(schema, list):
            return [self._converted(item, definitions) for item in schema]
        if not isinstance(schema, Mapping):
            return schema
        found: dict[str, Any] = {}
        for key, value in schema.items():
            if key in _NAMED and isinstance(value, Mapping):
                found[key] = {name: self._converted(sub, definitions) for name, sub in value.items()}
            elif key not in _SCHEMA_KEYS:
                found[key] = value if key in _VALUES else self._converted(value, definitions)
        target = schema.get("$ref")
        if isinstance(target, str):
            key = target.removeprefix(_ROOT)
            if not target.startswith(_ROOT) or "/" in key:
                key = re.sub(r"\W+", "_", target)
            if key not in definitions:
                definitions[key] = {}
                definitions[key] = self._converted(self.resolved(schema, target), definitions)
            found["$ref"] = f"#/$defs/{key}"
        for bound, name in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            value = schema.get(bound)
            if value is True and name in found:  # OpenAPI 3.0
                found[bound] = found.pop(name)
            elif value is not None and not isinstance(value, bool):
                found[bound] = value
        if schema.get("nullable") is True:
            kinds = found.get("type")
            if isinstance(kinds, str):
                found["type"] = [kinds, "null"]
            if isinstance(found.get("enum"), list) and None not in found["enum"]:
                found["enum"] = [*found["enum"], None]
        return found

    def resolved(self, node: Any, where: str) -> Mapping[str, Any]:
        """Return what a node references, or the node; a reference that leads nowhere is a problem."""
        seen = set()
        while isinstance(node, Mapping) and isinstance(node.get("$ref"), str):
            target = node["$ref"]
            if target in seen or not target.startswith("#/"):
                text = "refers to itself" if target in seen else "lies in another document"
                self.problems.append(f"{where}: reference {target} {text}")
                return {}
            seen.add(target)
            node = self.source
            for step in pointer_parts(target[1:]):
                if not isinstance(node, Mapping) or step not in node:
                    self.problems.append(f"{where}: reference {target} leads nowhere")
                    return {}
                node = node[step]
        return node if isinstance(node, Mapping) else {}

    def _url(self, path: str, item: Mapping[str, Any], operation: Mapping[str, Any], name: str) -> str:
        servers = operation.get("servers") or item.get("servers") or self.source.get("servers") or ()
        server = servers[0] if servers and isinstance(servers[0], Mapping) else {}
        url = str(server.get("url") or "")
        for variable, meaning in (server.get("variables") or {}).items():
            url = url.replace(f"{{{variable}}}", str(meaning.get("default", "")))
        if not url.startswith(("http://", "https://")):
            self.notes.count(name, f"server {url or 'unnamed'} has no host: put it before run.http.url")
        return url.rstrip("/") + path

    def _auth(self, name: str, operation: Mapping[str, Any]) -> dict[str, Any] | None:
        wanted = operation.get("security", self.source.get("security")) or ()
        schemes = (self.source.get("components") or {}).get("securitySchemes") or {}
        for choice in wanted:
            for key in choice:
                scheme = self.resolved(schemes.get(key) or {}, f"security scheme {key}")
                env = re.sub(r"\W+", "_", str(key)).upper().strip("_")
                kind, bearer = scheme.get("type"), str(scheme.get("scheme", "")).lower() == "bearer"
                if kind in ("oauth2", "openIdConnect") or (kind == "http" and bearer):
                    return {"type": "bearer", "env": env if env.endswith("TOKEN") else f"{env}_TOKEN"}
                if kind == "apiKey" and scheme.get("in") in ("header", "query"):
                    env = env if env.endswith("KEY") else f"{env}_KEY"
                    return {"type": "api_key", "env": env, str(scheme["in"]): scheme.get("name")}
                self.notes.count(name, f"left out: security scheme {key}")
        return None


def _media(parameter: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Schemas of a parameter that is described by media type."""
    for media in (parameter.get("content") or {}).values():
        if isinstance(media, Mapping):
            yield media.get("schema") or {}


def _skill_id(tag: str) -> str:
    return fitted(tag, MAX_ID) or "tools"
