"""As much of JSON Schema (draft 2020-12) as the schemas in devices/ use, so that checking needs nothing installed.

A keyword that is not known here is an error: a schema must not look stricter than its checker is.
"""

import re

TYPES = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "integer": lambda value: TYPES["number"](value) and value == int(value),
}
TOLD = {"$schema", "$defs", "title", "description"}


def of_object(value, schema, root, where):
    known = schema.get("properties", {})
    if len(value) < schema.get("minProperties", 0):
        yield f"{where}: has fewer than {schema['minProperties']} entries"
    for key in schema.get("required", []):
        if key not in value:
            yield f"{where}: '{key}' is missing"
    for key, inner in value.items():
        at = f"{where}.{key}"
        if "propertyNames" in schema:
            yield from faults(key, schema["propertyNames"], root, at)
        if key in known:
            yield from faults(inner, known[key], root, at)
        elif schema.get("additionalProperties") is False:
            yield f"{at}: is not known"
        elif isinstance(schema.get("additionalProperties"), dict):
            yield from faults(inner, schema["additionalProperties"], root, at)


def of_array(value, schema, root, where):
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{where}: has {len(value)} items"
    for i, item in enumerate(value):
        yield from faults(item, schema.get("items", {}), root, f"{where}[{i}]")


def faults(value, schema, root=None, where="$"):
    """What is wrong with value, one line each."""
    root = schema if root is None else root
    unknown = schema.keys() - TOLD - {
        "type", "properties", "required", "additionalProperties", "propertyNames", "minProperties", "items", "minItems", "maxItems",
        "enum", "pattern", "minLength", "minimum", "maximum", "exclusiveMinimum", "$ref",
    }
    if unknown:
        raise ValueError(f"{where}: the schema has keywords not known here: {', '.join(sorted(unknown))}")
    if "$ref" in schema:
        yield from faults(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, where)
    if "type" in schema and not TYPES[schema["type"]](value):
        yield f"{where}: {value!r} is not of type {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is not one of {', '.join(schema['enum'])}"
    if TYPES["object"](value):
        yield from of_object(value, schema, root, where)
    elif TYPES["array"](value):
        yield from of_array(value, schema, root, where)
    elif TYPES["string"](value):
        if len(value) < schema.get("minLength", 0):
            yield f"{where}: is shorter than {schema['minLength']}"
        if "pattern" in schema and not re.search(schema["pattern"], value):
            yield f"{where}: {value!r} does not match {schema['pattern']}"
    elif TYPES["number"](value):
        low, above, high = schema.get("minimum"), schema.get("exclusiveMinimum"), schema.get("maximum")
        if (low is not None and value < low) or (above is not None and value <= above) or (high is not None and value > high):
            yield f"{where}: {value} is out of range"
