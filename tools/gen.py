#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generate everything that comes from the tables in protocol/.

    tools/gen.py            write what has changed
    tools/gen.py --check    write nothing; name stale files and exit 1

Standard library only, and the same output for the same input."""
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROTOCOL = os.path.join(ROOT, "protocol")

# scalar: (C type, size, alignment)
SCALARS = {
    "bool": ("bool", 1, 1),
    "u64": ("uint64_t", 8, 8),
    "u32": ("uint32_t", 4, 4),
    "i32": ("int32_t", 4, 4),
    "i64": ("int64_t", 8, 8),
    "f64": ("double", 8, 8),
    "string": ("tc_str", 16, 8),
    "id": ("tc_str", 16, 8),
    "path": ("tc_str", 16, 8),
    "base64": ("tc_str", 16, 8),
    "sha256": ("tc_str", 16, 8),
    "version": ("tc_str", 16, 8),
    "time": ("tci_instant", 16, 8),
}
FIELD_KEYS = {"name", "type", "const", "optional", "default", "min", "max", "min_items", "max_items", "only",
              "kept", "member", "unit", "secret", "doc"}
METHOD_KEYS = {"name", "since", "scope", "replay", "mutates", "summary", "where", "bulk", "lane", "feature",
               "family", "is_reconciling", "transfer", "handler", "errors", "params", "results"}
COLUMNS = {
    "scope": ("TCI_SCOPE_", ["device", "session"]),
    "replay": ("TCI_REPLAY_", ["external", "active", "terminal"]),
    "where": ("TCI_WHERE_", ["loop", "worker", "async"]),
    "lane": ("TCI_LANE_", ["ordinary", "cleanup", "keepalive"]),
    "feature": ("TCI_FEATURE_", ["always", "directories", "monitoring", "commands", "signals", "computer",
                                 "egress"]),
    "family": ("TCI_FAMILY_", ["device", "session", "operation", "file", "transfer", "command", "process",
                               "output", "port", "computer"]),
}


class TableError(Exception):
    pass


def need(cond, what):
    if not cond:
        raise TableError(what)


def load(*parts):
    with open(os.path.join(PROTOCOL, *parts), encoding="utf-8") as f:
        try:
            return json.load(f)
        except ValueError as e:
            raise TableError(f"{'/'.join(parts)}: {e}") from e


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def ident(name):
    return name.replace(".", "_")


def c_str(text):
    out = []
    for ch in text:
        if ch in '"\\':
            out.append("\\" + ch)
        elif ch == "\n":
            out.append("\\n")
        else:
            need(" " <= ch <= "~", f"not plain ASCII: {text!r}")
            out.append(ch)
    return '"' + "".join(out) + '"'


def comment(text):
    need("*/" not in text, f"comment end in {text!r}")
    return "/* " + text + " */"


class Field:
    """One member of a record. shape: one, list, map; of: scalar name or a Record, Enum or Union."""

    def __init__(self, spec, where, model):
        need(set(spec) <= FIELD_KEYS, f"{where}: unknown columns {set(spec) - FIELD_KEYS}")
        self.name, self.doc, self.spec = spec["name"], spec["doc"], spec
        self.member = spec.get("member", snake(self.name))  # some words are macros in C libraries
        self.where = f"{where}.{self.name}"
        self.shape, self.const = "one", spec.get("const")
        if self.const is not None:
            self.type_name, self.of = "const", None
            return
        text = spec["type"]
        m = re.fullmatch(r"(list|map)<(\w+)>", text)
        if m:
            self.shape, text = m.group(1), m.group(2)
        self.type_name = text
        self.of = None if text in SCALARS else model.named(text, self.where)
        self.optional = spec.get("optional", False)
        self.has_default = "default" in spec
        need(not (self.optional and (self.has_default or self.shape != "one")), f"{self.where}: presence")
        if isinstance(self.of, Record) and self.has_default:
            need(spec["default"] == {}, f"{self.where}: only {{}} can be a record's default")

    @property
    def is_required(self):
        return self.const is not None or (
            self.shape == "one" and not self.optional and not self.has_default) or self.spec.get("min_items", 0) > 0

    def c_item(self):
        """C type of one value."""
        if self.of is None:
            return SCALARS[self.type_name][0]
        return self.of.c_name

    def enum_default(self):
        return self.of.values.index(self.spec["default"])


class Enum:
    def __init__(self, name, values, doc, prefix="tci_eip_"):
        self.name, self.values, self.doc = name, values, doc
        self.c_name = prefix + snake(name)

    def c_value(self, v):
        return (self.c_name + "_" + v).upper()


class Record:
    def __init__(self, name, c_name, doc, check=None):
        self.name, self.c_name, self.doc, self.check = name, c_name, doc, check
        self.fields = []


class Union:
    """A record whose fields depend on the value of one of them."""

    def __init__(self, name, by, doc):
        self.name, self.by, self.doc = name, by, doc
        self.c_name = "tci_eip_" + snake(name)
        self.variants = []  # (name, Record)
        self.tag = None


class Method:
    def __init__(self, spec):
        need(set(spec) <= METHOD_KEYS, f"{spec.get('name')}: unknown columns {set(spec) - METHOD_KEYS}")
        self.spec, self.name = spec, spec["name"]
        self.ident = ident(self.name)
        for col, (_, values) in COLUMNS.items():
            need(spec[col] in values, f"{self.name}: {col} is {spec[col]!r}")
        self.params = self.results = None

    def col(self, name):
        return COLUMNS[name][0] + self.spec[name].upper()


class Model:
    def __init__(self):
        self.index = load("eip", "index.json")
        self.errors = load("eip", "errors.json")
        self.codes = load("errors.json")["codes"]
        self.constants, self.types, self.order, self.methods = [], {}, [], []
        docs = [load("eip", name) for name in self.index["files"]]
        self.chapters = []
        for d in docs:
            for e in d.get("enums", []):
                values = e["values"] if "values" in e else [t["name"] for t in self.errors["types"]]
                self.add(Enum(e["name"], values, e["doc"]))
            for r in d.get("records", []):
                self.add(Record(r["name"], "tci_eip_" + snake(r["name"]), r["doc"], r.get("check")))
            for u in d.get("unions", []):
                self.add(Union(u["name"], u["by"], u["doc"]))
            self.constants += d.get("constants", [])
        for d in docs:
            for r in d.get("records", []):
                rec = self.types[r["name"]]
                rec.fields = [Field(f, r["name"], self) for f in r["fields"]]
            for u in d.get("unions", []):
                self.fill_union(u)
            part = []
            for spec in d.get("methods", []):
                m = Method(spec)
                m.params = self.message(m, "params")
                m.results = self.message(m, "result")
                part.append(m)
            if part:
                self.chapters.append((d["doc"], part))
            self.methods += part
        self.check()
        self.sort_types()

    def add(self, t):
        need(t.name not in self.types, f"{t.name} is there twice")
        self.types[t.name] = t

    def named(self, name, where):
        need(name in self.types, f"{where}: unknown type {name}")
        return self.types[name]

    def message(self, m, part):
        rec = Record(f"{m.name} {part}", f"tci_eip_{m.ident}_{part}", f"{part} of {m.name}")
        rec.fields = [Field(f, f"{m.name} {part}", self) for f in m.spec["params" if part == "params" else "results"]]
        return rec

    def fill_union(self, spec):
        u = self.types[spec["name"]]
        u.tag = Enum(u.name, [v["name"] for v in spec["variants"]], f"Variants of {u.name}.")
        for v in spec["variants"]:
            rec = Record(f"{u.name} {v['name']}", f"{u.c_name}_{v['name']}", v["doc"])
            rec.fields = [Field(f, rec.name, self) for f in v["fields"]]
            u.variants.append((v["name"], rec))

    def check(self):
        names = [m.name for m in self.methods]
        need(len(set(names)) == len(names), "a method is there twice")
        known = {t["name"] for t in self.errors["types"]}
        for m in self.methods:
            need(set(m.spec["errors"]) <= known, f"{m.name}: unknown error")
        taken = {}
        for value, owner in [("TCI_EIP_" + m.ident.upper(), m.name) for m in self.methods] + [
                (e.c_value(v), e.name) for e in self.enums() for v in e.values]:
            need(value not in taken, f"{value} of {owner} is also of {taken.get(value)}")
            taken[value] = owner
        for rec in self.records():
            need(len(rec.fields) <= 64, f"{rec.name}: more than 64 fields")
            need(len({f.name for f in rec.fields}) == len(rec.fields), f"{rec.name}: equal fields")

    def enums(self):
        out = [t for t in self.types.values() if isinstance(t, Enum)]
        return out + [t.tag for t in self.types.values() if isinstance(t, Union)]

    def records(self):
        """All records: shared ones, variants, params and results."""
        for t in self.order or self.types.values():
            if isinstance(t, Record):
                yield t
            elif isinstance(t, Union):
                for _, rec in t.variants:
                    yield rec
        for m in self.methods:
            yield m.params
            yield m.results

    def sort_types(self):
        """Shared records and unions, each after what it contains by value."""
        done = set()

        def visit(t, trail):
            need(t.name not in trail, f"{t.name} contains itself")
            if t.name in done or isinstance(t, Enum):
                return
            recs = [t] if isinstance(t, Record) else [r for _, r in t.variants]
            for rec in recs:
                for f in rec.fields:
                    if f.const is None and f.of is not None:
                        visit(f.of, trail | {t.name})
            done.add(t.name)
            self.order.append(t)

        for t in self.types.values():
            visit(t, frozenset())

    def maps(self):
        """Values of maps that are not text: name of the entry type -> C type of the value."""
        out = {}
        for rec in self.records():
            for f in rec.fields:
                if f.shape == "map" and f.type_name != "string":
                    out[map_entry(f)] = f
        return out


def map_entry(f):
    if f.type_name == "string":
        return "tci_proto_pair"
    if f.of is None:
        return f"tci_eip_{f.type_name}_entry"
    return f.of.c_name + "_entry"


class Op:
    """One operation of pi-env."""

    KEYS = {"name", "since", "where", "summary", "params", "results"}

    def __init__(self, spec):
        need(set(spec) == self.KEYS, f"{spec.get('name')}: columns {set(spec) ^ self.KEYS}")
        need(spec["since"] in ("V0", "V1", "V2", "ext"), f"{spec['name']}: since {spec['since']!r}")
        need(spec["where"] in COLUMNS["where"][1], f"{spec['name']}: where {spec['where']!r}")
        self.spec, self.name, self.ident = spec, spec["name"], snake(spec["name"])
        self.params = self.results = None


class PiModel:
    """The tables of pi-env: records like those of EIP, and operations instead of methods."""

    def __init__(self):
        doc = load("pi_env", "ops.json")
        self.doc, self.constants, self.types, self.order = doc["doc"], doc["constants"], {}, []
        for e in doc["enums"]:
            self.add(Enum(e["name"], e["values"], e["doc"], "tci_pi_"))
        for r in doc["records"]:
            self.add(Record(r["name"], "tci_pi_" + snake(r["name"]), r["doc"]))
        for r in doc["records"]:
            self.types[r["name"]].fields = [Field(f, r["name"], self) for f in r["fields"]]
        self.methods = [Op(spec) for spec in doc["ops"]]
        for op in self.methods:
            op.params = self.message(op, "params", op.spec["params"])
            op.results = self.message(op, "result", op.spec["results"])
        need(len({op.name for op in self.methods}) == len(self.methods), "an operation is there twice")
        Model.sort_types(self)

    add, named = Model.add, Model.named

    def message(self, op, part, fields):
        if isinstance(fields, str):  # the whole result is a record of its own
            return self.types[fields]
        rec = Record(f"{op.name} {part}", f"tci_pi_{op.ident}_{part}", f"{part} of {op.name}")
        rec.fields = [Field(f, rec.name, self) for f in fields]
        return rec

    def enums(self):
        return [t for t in self.types.values() if isinstance(t, Enum)]

    def messages(self):
        """Params and results that are not shared records."""
        return [rec for op in self.methods for rec in (op.params, op.results) if rec.name not in self.types]


# ---- C: structs -------------------------------------------------------------------------------

def member_lines(f, indent="    "):
    if f.const is not None:
        return []
    notes = [f.doc]
    if f.spec.get("unit"):
        notes.append(f.spec["unit"])
    item = f.c_item() if f.shape != "map" else map_entry(f)
    lines = []
    if f.shape == "one":
        if f.optional:
            lines.append(f"{indent}bool has_{f.member};")
        lines.append(f"{indent}{item} {f.member}; {comment(', '.join(notes))}")
    else:
        lines += [f"{indent}struct {{ {comment(', '.join(notes))}", f"{indent}    {item} *items;",
                  f"{indent}    size_t count;", f"{indent}}} {f.member};"]
    return lines


def struct_text(rec):
    body = [line for f in rec.fields for line in member_lines(f)]
    if not body:
        body = ["    char nothing; /* no fields */"]
    return "\n".join([comment(rec.doc), f"typedef struct {rec.c_name} {{"] + body + [f"}} {rec.c_name};"])


def union_text(u):
    out = []
    for _, rec in u.variants:
        if any(f.const is None for f in rec.fields):
            out.append(struct_text(rec))
    out.append("\n".join([comment(u.doc), f"typedef struct {u.c_name} {{", f"    {u.tag.c_name}_tag {u.by};",
                          "    union {"] + [f"        {rec.c_name} {name};" for name, rec in u.variants
                                            if any(f.const is None for f in rec.fields)] +
                         ["    } u;", f"}} {u.c_name};"]))
    return "\n\n".join(out)


def enum_c_type(e, model):
    tags = {t.tag.name for t in model.types.values() if isinstance(t, Union)}
    return e.c_name + ("_tag" if e.name in tags else "")


HEAD = "/* Generated by ./dev gen from protocol/{source}. Do not edit. */\n/* SPDX-License-Identifier: Apache-2.0 */\n"


def gen_eip_h(model):
    o = [HEAD.format(source="eip"), "#ifndef TCI_PROTO_GEN_EIP_H", "#define TCI_PROTO_GEN_EIP_H", "",
         '#include "base/rfc3339.h"', '#include "proto/proto.h"', "",
         f"#define TCI_EIP_PROTOCOL_VERSION {c_str(model.index['protocol_version'])}", "", "enum {"]
    for c in model.constants:
        o.append(f"    TCI_EIP_{c['name']} = {c['value']}, {comment(c['doc'])}")
    o += ["};", ""]
    for e in model.enums():
        t = enum_c_type(e, model)
        o += [comment(e.doc), f"typedef enum {t} {{"]
        o += [f"    {e.c_value(v)}," for v in e.values]
        o += [f"}} {t};", f"enum {{ {e.c_name.upper()}_COUNT = {len(e.values)} }};",
              "/* The words of the wire, by value. */",
              f"extern const tc_str {t}_names[{e.c_name.upper()}_COUNT];", ""]
    entries = {}
    for name, f in model.maps().items():
        entries.setdefault(f.of.name if f.of else "", []).append((name, f))
    for name, f in entries.pop("", []):
        o += ["/* One entry of a map. */", f"typedef struct {name} {{", "    tc_str key;",
              f"    {f.c_item()} value;", f"}} {name};", ""]
    for t in model.order:
        o += [struct_text(t) if isinstance(t, Record) else union_text(t), ""]
        o += [f"extern const tci_type {t.c_name}_type;", ""]
        for name, f in entries.get(t.name, []):
            o += ["/* One entry of a map. */", f"typedef struct {name} {{", "    tc_str key;",
                  f"    {f.c_item()} value;", f"}} {name};", ""]
    for m in model.methods:
        for rec in (m.params, m.results):
            o += [struct_text(rec), f"extern const tci_type {rec.c_name}_type;", ""]
    o += ["/* Every method, an index of tci_eip_methods. */", "enum {"]
    o += [f"    TCI_EIP_{m.ident.upper()}," for m in model.methods]
    o += ["    TCI_EIP_METHOD_COUNT", "};", "", "extern const tci_method tci_eip_methods[TCI_EIP_METHOD_COUNT];",
          "", "#endif", ""]
    return "\n".join(o)


# ---- C: descriptors ---------------------------------------------------------------------------

KINDS = {"bool": "BOOL", "u64": "U64", "u32": "U32", "i32": "I32", "i64": "I64", "f64": "F64", "string": "STRING", "id": "ID",
         "path": "PATH", "base64": "BASE64", "sha256": "SHA256", "version": "VERSION", "time": "TIME",
         "const": "CONST"}


class Descriptors:
    def __init__(self, model):
        self.model, self.rules, self.out = model, {}, []

    def rule(self, f):
        s = f.spec
        lo = hi = dflt = 0
        if f.const is not None:
            row = f".text = {text_init(f.const)}"
            return self.rule_name(row)
        if f.type_name == "f64":
            row = f".min_f64 = {float(s.get('min', 0))!r}, .max_f64 = " + (
                repr(float(s["max"])) if "max" in s else "DBL_MAX")
            need("min" in s and not f.has_default, f"{f.where}: f64 needs min, takes no default")
            return self.rule_name(row)
        if f.type_name in ("u64", "u32"):
            lo, hi = s.get("min", 0), s.get("max", 2**64 - 1 if f.type_name == "u64" else 2**32 - 1)
        elif f.type_name == "bool":
            lo, hi = (int(s["only"]),) * 2 if "only" in s else (0, 1)
        elif f.type_name in ("i32", "i64"):
            need("min" not in s and "max" not in s, f"{f.where}: {f.type_name} takes no bounds")
        elif f.type_name in ("string", "id"):
            lo = s.get("min", 1 if f.type_name == "id" else 0)
            hi = s.get("max", 2**64 - 1)
        else:
            need("min" not in s and "max" not in s, f"{f.where}: takes no bounds")
        text = ""
        if f.has_default and not isinstance(f.of, Record):
            d = s["default"]
            if isinstance(f.of, Enum):
                dflt = f.enum_default()
            elif f.type_name == "string":
                text = d
            else:
                need(f.type_name in ("bool", "u64", "u32", "i32") and d >= 0, f"{f.where}: default")
                dflt = int(d)
        row = [f".min = {num(lo)}", f".max = {num(hi)}"]
        if dflt:
            row.append(f".dflt = {num(dflt)}")
        if text:
            row.append(f".text = {text_init(text)}")
        if f.shape != "one":
            row.append(f".min_items = {s.get('min_items', 0)}")
            row.append(f".max_items = {s.get('max_items', 2**32 - 1)}u")
        return self.rule_name(", ".join(row))

    def rule_name(self, row):
        return self.rules.setdefault(row, f"&rules[{len(self.rules)}]")

    def field_row(self, f, struct, base=""):
        """base: member path in front of the field's name, for variants."""
        if f.const is not None:
            return (f"{{.key = {key_text(f.name)}, .key_len = {len(f.name)}, .kind = TCI_KIND_CONST, "
                    f".rule = {self.rule(f)}}}")
        parts = [f".key = {key_text(f.name)}", f".key_len = {len(f.name)}"]
        if f.of is None:
            parts.append(f".kind = TCI_KIND_{KINDS[f.type_name]}")
        elif isinstance(f.of, Enum):
            parts += [".kind = TCI_KIND_ENUM", f".of.names = {enum_c_type(f.of, self.model)}_names",
                      f".nnames = {len(f.of.values)}"]
        else:
            parts += [".kind = TCI_KIND_RECORD", f".of.type = &{f.of.c_name}_type"]
        if f.shape != "one":
            parts.append(f".shape = TCI_SHAPE_{f.shape.upper()}")
        parts.append(f".presence = TCI_{'REQUIRED' if f.is_required else 'OPTIONAL' if f.optional else 'DEFAULTED'}")
        parts.append(f".at = offsetof({struct}, {base}{f.member})")
        if f.optional:
            parts.append(f".has_at = offsetof({struct}, {base}has_{f.member})")
        if f.type_name == "Context" and f.shape == "one":
            parts.append(".is_context = true")
        if f.spec.get("kept"):
            parts.append(".is_kept = true")
        if f.shape == "map":
            parts.append(f".value_at = offsetof({map_entry(f)}, value), .item_size = sizeof({map_entry(f)})")
        elif f.shape == "list":
            parts.append(f".item_size = sizeof({f.c_item()})")
        parts.append(f".rule = {self.rule(f)}")
        return "{" + ", ".join(parts) + "}"

    def record(self, rec, c_name, struct, size, fields, base="", static=False):
        """fields: what is on the wire, sorted bytewise."""
        fields = sorted(fields, key=lambda f: f.name.encode())
        required = fill = 0
        for i, f in enumerate(fields):
            if f.is_required:
                required |= 1 << i
            elif f.const is None and needs_fill(f):
                fill |= 1 << i
        if fields:
            self.out.append(f"static const tci_field {c_name}_fields[] = {{")
            self.out += [f"    {self.field_row(f, struct, base)}," for f in fields]
            self.out.append("};")
        self.out += [("static " if static else "") + f"const tci_type {c_name}_type = {{",
                     f"    .name = {c_str(rec.name)},",
                     f"    .fields = {c_name + '_fields' if fields else 'NULL'},",
                     f"    .nfields = {len(fields)},", f"    .size = {size},",
                     f"    .required = {num(required)}, .fill = {num(fill)},",
                     f"    .check = TCI_CHECK_{(rec.check or 'none').upper()},", "};", ""]

    def union(self, u):
        names = []
        for name, rec in u.variants:
            tag = Field({"name": u.by, "const": name, "doc": "variant"}, rec.name, self.model)
            self.record(rec, rec.c_name, u.c_name, f"sizeof({u.c_name})", rec.fields + [tag], f"u.{name}.", True)
            names.append(f"&{rec.c_name}_type")
        t = enum_c_type(u.tag, self.model)
        self.out += [f"static const tci_type *const {u.c_name}_variants[] = {{{', '.join(names)}}};",
                     f"const tci_type {u.c_name}_type = {{", f"    .name = {c_str(u.name)},",
                     f"    .size = sizeof({u.c_name}),",
                     f"    .by = {text_init(u.by)}, .by_at = offsetof({u.c_name}, {u.by}),",
                     f"    .variant_names = {t}_names, .variants = {u.c_name}_variants,",
                     f"    .nvariants = {len(names)},", "};", ""]

    def text(self):
        for t in self.model.order:
            if isinstance(t, Record):
                self.record(t, t.c_name, t.c_name, f"sizeof({t.c_name})", t.fields)
            else:
                self.union(t)
        for m in self.model.methods:
            for rec in (m.params, m.results):
                self.record(rec, rec.c_name, rec.c_name, f"sizeof({rec.c_name})", rec.fields)
        rules = ["static const tci_rule rules[] = {"] + [f"    {{{row}}}," for row in self.rules] + ["};", ""]
        return rules, self.out


class PiDescriptors(Descriptors):
    def text(self):
        for rec in [t for t in self.model.order if isinstance(t, Record)] + self.model.messages():
            self.record(rec, rec.c_name, rec.c_name, f"sizeof({rec.c_name})", rec.fields)
        return ["static const tci_rule rules[] = {"] + [f"    {{{row}}}," for row in self.rules] + ["};", ""], self.out


def needs_fill(f):
    """Whether an absent field is something else than zeroes."""
    if f.shape != "one" or f.optional or not f.has_default:
        return False
    if isinstance(f.of, Record):
        return any(x.const is None and needs_fill(x) for x in f.of.fields)
    if isinstance(f.of, Enum):
        return f.enum_default() != 0
    return bool(f.spec["default"])


def num(v):
    return f"{v}u" if v < 2**31 else f"UINT64_C({v})"


def text_init(text):
    return f"{{{c_str(text)}, {len(text.encode())}}}"


def key_text(name):
    return c_str(f',"{name}":')


def name_slot(name, seed):
    h = seed
    for byte in name.encode():
        h = ((h ^ byte) * 16777619) & 0xffffffff
    return h >> 24


def find_seed(names):
    """A start value under which no two names share one of 256 slots."""
    for seed in range(1, 1 << 16):
        if len({name_slot(n, seed) for n in names}) == len(names):
            return seed
    raise TableError("no collision-free table of methods")


def gen_eip_c(model):
    o = [HEAD.format(source="eip"),
         "/* Descriptors of records, and the table of methods. Constant; any thread. */", "",
         '#include "proto/gen/eip.h"', '#include "proto/proto_int.h"', "#include <float.h>", ""]
    for e in model.enums():
        t = enum_c_type(e, model)
        o += [f"const tc_str {t}_names[{e.c_name.upper()}_COUNT] = {{",
              "    " + ", ".join(text_init(v) for v in e.values) + ",", "};"]
    o.append("")
    rules, types = Descriptors(model).text()
    o += rules + types
    o += ["const tci_method tci_eip_methods[TCI_EIP_METHOD_COUNT] = {"]
    for m in model.methods:
        o += [f"    [TCI_EIP_{m.ident.upper()}] = {{", f"        .name = {text_init(m.name)},",
              f"        .scope = {m.col('scope')}, .replay = {m.col('replay')}, .where = {m.col('where')},",
              f"        .lane = {m.col('lane')}, .feature = {m.col('feature')}, .family = {m.col('family')},",
              f"        .is_reconciling = {str(m.spec['is_reconciling']).lower()}, "
              f".is_bulk = {str(m.spec['bulk']).lower()},",
              f"        .params = &{m.params.c_name}_type, .result = &{m.results.c_name}_type,", "    },"]
    o += ["};", ""]
    names = [m.name for m in model.methods]
    seed = find_seed(names)
    slots = sorted((name_slot(n, seed), i) for i, n in enumerate(names))
    o += ["/* FNV-1a from a seed under which no two methods share a slot. 0: empty, else index + 1. */",
          f"enum {{ NAME_SEED = {seed}, NAME_MAX = {max(map(len, names))} }};", "static const uint8_t slots[256] = {"]
    o += ["    " + ", ".join(f"[{s}] = TCI_EIP_{model.methods[i].ident.upper()} + 1" for s, i in part) + ","
          for part in chunks(slots, 2)]
    o += ["};", "", "const tci_method *tci_method_find(tc_str name)", "{", "    uint32_t h = NAME_SEED;",
          "    if (name.len > NAME_MAX)", "        return NULL;", "    for (size_t i = 0; i < name.len; i++)",
          "        h = (h ^ (uint8_t)name.ptr[i]) * 16777619u;", "    unsigned slot = slots[h >> 24];",
          "    if (slot == 0)", "        return NULL;", "    const tci_method *m = &tci_eip_methods[slot - 1];",
          "    return tci_str_eq(m->name, name) ? m : NULL;", "}", ""]
    return "\n".join(o)


def chunks(items, n):
    return [items[i:i + n] for i in range(0, len(items), n)]


# ---- pi-env ---------------------------------------------------------------------------------

def gen_pi_h(model):
    o = [HEAD.format(source="pi_env"), "#ifndef TCI_PROTO_GEN_PI_ENV_H", "#define TCI_PROTO_GEN_PI_ENV_H", "",
         '#include "proto/pi_env.h"', "", "enum {"]
    o += [f"    TCI_PI_{c['name']} = {c['value']}, {comment(c['doc'])}" for c in model.constants]
    o += ["};", ""]
    for e in model.enums():
        o += [comment(e.doc), f"typedef enum {e.c_name} {{"] + [f"    {e.c_value(v)}," for v in e.values]
        o += [f"}} {e.c_name};", f"enum {{ {e.c_name.upper()}_COUNT = {len(e.values)} }};",
              "/* The words of the wire, by value. */",
              f"extern const tc_str {e.c_name}_names[{e.c_name.upper()}_COUNT];", ""]
    for rec in [t for t in model.order if isinstance(t, Record)] + model.messages():
        o += [struct_text(rec), f"extern const tci_type {rec.c_name}_type;", ""]
    o += ["/* Every operation, an index of tci_pi_ops. */", "enum {"]
    o += [f"    TCI_PI_{op.ident.upper()}," for op in model.methods]
    o += ["    TCI_PI_OP_COUNT", "};", "", "extern const tci_pi_op tci_pi_ops[TCI_PI_OP_COUNT];", "", "#endif", ""]
    return "\n".join(o)


def gen_pi_c(model):
    o = [HEAD.format(source="pi_env"), "/* Descriptors of records, and the table of operations. Constant; any thread. */",
         "", '#include "proto/gen/pi_env.h"', '#include "proto/proto_int.h"', "#include <float.h>", ""]
    for e in model.enums():
        o += [f"const tc_str {e.c_name}_names[{e.c_name.upper()}_COUNT] = {{",
              "    " + ", ".join(text_init(v) for v in e.values) + ",", "};"]
    d = PiDescriptors(model)
    rules, types = d.text()
    o += [""] + rules + types + ["const tci_pi_op tci_pi_ops[TCI_PI_OP_COUNT] = {"]
    for op in model.methods:
        o += [f"    [TCI_PI_{op.ident.upper()}] = {{", f"        .name = {text_init(op.name)},",
              f"        .where = TCI_WHERE_{op.spec['where'].upper()}, .is_ext = {str(op.spec['since'] == 'ext').lower()},",
              f"        .params = &{op.params.c_name}_type, .result = &{op.results.c_name}_type,", "    },"]
    return "\n".join(o + ["};", ""])


def gen_pi_docs(model):
    o = ["<!-- Generated by ./dev gen from protocol/pi_env. Do not edit. -->", "# pi-env: operations and types", "",
         model.doc, "", "## Operations", "", "| operation | since | runs on |", "| --- | --- | --- |"]
    o += [f"| [`{op.name}`](#{op.name.lower()}) | {op.spec['since']} | {op.spec['where']} |" for op in model.methods]
    o.append("")
    for op in model.methods:
        o += [f"### {op.name}", "", op.spec["summary"], ""] + md_fields(op.params.fields, "param")
        o += [f"Result: [{op.results.name}](#{op.results.name.lower()}).", ""] if op.results.name in model.types \
            else md_fields(op.results.fields, "result")
    o += ["## Types", ""]
    for t in sorted(model.types.values(), key=lambda t: t.name.lower()):
        o += [f"### {t.name}", "", t.doc, ""]
        o += ["One of " + ", ".join(f"`{v}`" for v in t.values) + ".", ""] if isinstance(t, Enum) \
            else md_fields(t.fields, "field")
    return "\n".join(o).rstrip("\n") + "\n"


def gen_pi_dictionary(model):
    words = {f'"{f.name}":' for t in list(model.types.values()) + model.messages() if isinstance(t, Record)
             for f in t.fields}
    words |= {f'"{v}"' for e in model.enums() for v in e.values} | {f'"op":"{op.name}"' for op in model.methods}
    words |= {'"mode":"kill"', "null", "true", "false", "18446744073709551615", "-1", "1e308"}
    quote = lambda w: '"' + w.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "\n".join(["# Generated by ./dev gen from protocol/pi_env. Do not edit."] +
                     [quote(w) for w in sorted(words)]) + "\n"


# ---- errors -----------------------------------------------------------------------------------

def gen_error_codes_h(model):
    o = ["/* Generated by ./dev gen from protocol/errors.json. Do not edit. */", "#ifndef TELECHIR_ERROR_CODES_H",
         "#define TELECHIR_ERROR_CODES_H", "", "typedef enum tc_code {", "    TC_OK = 0,"]
    o += [f"    TC_E_{c['name']} = {c['number']}, /* {c['text']} */" for c in model.codes]
    o += ["} tc_code;", "", "#endif", ""]
    return "\n".join(o)


def gen_error_table_h(model):
    o = ["/* Generated by ./dev gen from protocol/errors.json. Do not edit. */", "#ifndef TCI_GEN_ERROR_TABLE_H",
         "#define TCI_GEN_ERROR_TABLE_H", "", "/* X(NAME, number, exit status, can be retried, text) */",
         "#define TCI_ERROR_TABLE(X) \\"]
    rows = [f"    X({c['name']}, {c['number']}, {c['exit']}, {str(c['retry']).lower()}, {c_str(c['text'])})"
            for c in model.codes]
    o += [r + " \\" for r in rows[:-1]] + [rows[-1], "", "#endif", ""]
    return "\n".join(o)


def error_rows(model):
    """(family or None, tc_code) -> row with everything filled in."""
    types = {t["name"]: t for t in model.errors["types"]}
    codes = {c["name"] for c in model.codes}
    families = COLUMNS["family"][1]
    out = {}
    for r in model.errors["rows"]:
        need(r["code"] in codes, f"errors.json: unknown code {r['code']}")
        need(r["error_type"] in types, f"errors.json: unknown error type {r['error_type']}")
        for fam in r.get("families", [None]):
            need(fam is None or fam in families, f"errors.json: unknown family {fam}")
            need((fam, r["code"]) not in out, f"errors.json: ({fam}, {r['code']}) is there twice")
            out[(fam, r["code"])] = error_row(r, types)
    for c in codes:
        need((None, c) in out, f"errors.json: no default row for {c}")
    return out


def error_row(r, types):
    hint = r.get("retry_hint", types[r["error_type"]]["retry_hint"])
    return (types[r["error_type"]]["code"], r["error_type"], r["message"], hint)


def gen_errors_h(model):
    o = [HEAD.format(source="eip/errors.json"), "#ifndef TCI_PROTO_GEN_ERRORS_H", "#define TCI_PROTO_GEN_ERRORS_H", "",
         '#include "proto/gen/eip.h"', "",
         "/* What goes into an error object: its JSON-RPC code, its kind, the fixed text, the hint. */",
         "typedef struct tci_eip_error_row {", "    int32_t code;", "    tci_eip_error_type type;", "    tc_str message;",
         "    tci_eip_retry_hint hint;", "} tci_eip_error_row;", "",
         "/* How a failure of a method of this family is told. Pairs without a row of their own take the",
         " * code's, unknown codes internal_error; never NULL. Static storage, any thread. */",
         "const tci_eip_error_row *tci_eip_error_row_for(tci_family family, tc_code code);", "",
         "/* Failures with a text of their own, not tied to a code. */", "typedef enum tci_eip_cause {"]
    o += [f"    TCI_EIP_CAUSE_{c['name'].upper()}, {comment(c['doc'])}" for c in model.errors["causes"]]
    o += ["} tci_eip_cause;", f"enum {{ TCI_EIP_CAUSE_COUNT = {len(model.errors['causes'])} }};",
          "extern const tci_eip_error_row tci_eip_error_causes[TCI_EIP_CAUSE_COUNT];", "",
          "/* JSON-RPC code of an error type; 0 when the type is unknown. For checking replies. */",
          "int32_t tci_eip_error_code(tc_str error_type);",
          "/* The other direction: what a program here acts on when the other side answered this type;",
          " * INTERNAL when the type is unknown. */",
          "tc_code tci_eip_error_local(tc_str error_type);", "", "#endif", ""]
    return "\n".join(o)


def row_text(row):
    code, kind, message, hint = row
    return (f"{{{code}, TCI_EIP_ERROR_TYPE_{kind.upper()}, {text_init(message)}, "
            f"TCI_EIP_RETRY_HINT_{hint.upper()}}}")


def gen_errors_c(model):
    rows = error_rows(model)
    types = {t["name"]: t for t in model.errors["types"]}
    families = COLUMNS["family"][1]
    unique, pos = [], {}
    for row in rows.values():
        if row not in pos:
            pos[row] = len(unique)
            unique.append(row)
    o = [HEAD.format(source="eip/errors.json"), "/* Texts of errors. Constant; any thread. */", "",
         '#include "proto/gen/errors.h"', "", "static const tci_eip_error_row rows[] = {"]
    o += [f"    {row_text(r)}," for r in unique]
    o += ["};", "", "/* Index into rows, by the negated code; INTERNAL's stands for unknown codes. */",
          f"enum {{ NCODES = {max(-c['number'] for c in model.codes) + 1}, NFAMILIES = {len(families)} }};",
          "static const uint8_t row_of[NFAMILIES][NCODES] = {"]
    internal = next(c for c in model.codes if c["name"] == "INTERNAL")
    for fam in families:
        cells = [f"[0] = {pos[rows.get((fam, internal['name']), rows[(None, internal['name'])])]}"]
        cells += [f"[{-c['number']}] = {pos[rows.get((fam, c['name']), rows[(None, c['name'])])]}"
                  for c in model.codes]
        o.append(f"    [TCI_FAMILY_{fam.upper()}] = {{{', '.join(cells)}}},")
    o += ["};", "", "const tci_eip_error_row *tci_eip_error_row_for(tci_family family, tc_code code)", "{",
          "    unsigned f = (unsigned)family < NFAMILIES ? (unsigned)family : 0;",
          "    int n = -(int)code;", "    return &rows[row_of[f][n > 0 && n < NCODES ? n : 0]];", "}", "",
          "const tci_eip_error_row tci_eip_error_causes[TCI_EIP_CAUSE_COUNT] = {"]
    for c in model.errors["causes"]:
        need(c["error_type"] in types, f"errors.json: unknown error type {c['error_type']}")
        o.append(f"    [TCI_EIP_CAUSE_{c['name'].upper()}] = {row_text(error_row(c, types))},")
    codes = {c["name"] for c in model.codes}
    o += ["};", "", "static const struct {", "    int32_t code;", "    tc_code local;",
          f"}} type_facts[TCI_EIP_ERROR_TYPE_COUNT] = {{"]
    for t in model.errors["types"]:
        need(t["local"] in codes, f"errors.json: {t['name']}: unknown code {t['local']}")
        o.append(f"    [TCI_EIP_ERROR_TYPE_{t['name'].upper()}] = {{{t['code']}, TC_E_{t['local']}}},")
    o += ["};", "", "static int type_find(tc_str error_type)", "{",
          "    for (int i = 0; i < TCI_EIP_ERROR_TYPE_COUNT; i++)",
          "        if (tci_str_eq(tci_eip_error_type_names[i], error_type))", "            return i;",
          "    return -1;", "}", "", "int32_t tci_eip_error_code(tc_str error_type)", "{",
          "    int at = type_find(error_type);", "    return at < 0 ? 0 : type_facts[at].code;", "}", "",
          "tc_code tci_eip_error_local(tc_str error_type)", "{", "    int at = type_find(error_type);",
          "    return at < 0 ? TC_E_INTERNAL : type_facts[at].local;", "}", ""]
    return "\n".join(o)


# ---- handlers ---------------------------------------------------------------------------------

def gen_handlers_h(model):
    o = [HEAD.format(source="eip"), "#ifndef TCI_DAEMON_GEN_HANDLERS_H", "#define TCI_DAEMON_GEN_HANDLERS_H", "",
         '#include "proto/gen/eip.h"', "", "typedef struct tci_req tci_req; /* daemon/req.h */", "",
         "/* One per method. LOOP and ASYNC run on the loop thread, WORKER on a pool thread; see req.h for",
         " * what a request holds and how it is answered. */",
         "typedef int (*tci_handler)(tci_req *r, tc_err *err);",
         "/* By method; NULL for a method that is not offered. */",
         "extern const tci_handler tci_handlers[TCI_EIP_METHOD_COUNT];", ""]
    for m in model.methods:
        if m.spec["handler"]:
            need(re.fullmatch(r"tci_on_\w+", m.spec["handler"]), f"{m.name}: handler's name")
            o.append(f"int {m.spec['handler']}(tci_req *r, tc_err *err) TC_CHECKED; "
                     f"/* {m.spec['where']}: {m.name} */")
    return "\n".join(o + ["", "#endif", ""])


def gen_handlers_c(model):
    o = [HEAD.format(source="eip"), "/* Which function serves which method. Constant; any thread. */", "",
         '#include "daemon/gen/handlers.h"', "", "const tci_handler tci_handlers[TCI_EIP_METHOD_COUNT] = {"]
    o += [f"    [TCI_EIP_{m.ident.upper()}] = {m.spec['handler'] or 'NULL'}," for m in model.methods]
    return "\n".join(o + ["};", ""])


# ---- JSON Schema ------------------------------------------------------------------------------

def schema_scalar(f):
    s, t = f.spec, f.type_name
    if f.const is not None:
        return {"const": f.const}
    if isinstance(f.of, Enum):
        return {"enum": f.of.values}
    if f.of is not None:
        return {"$ref": "#/$defs/" + f.of.name}
    if t == "bool":
        return {"const": s["only"]} if "only" in s else {"type": "boolean"}
    if t in ("u64", "u32", "i32"):
        lo, hi = {"u64": (0, 2**64 - 1), "u32": (0, 2**32 - 1), "i32": (-2**31, 2**31 - 1)}[t]
        return {"type": "integer", "minimum": s.get("min", lo), "maximum": s.get("max", hi)}
    if t == "f64":
        out = {"type": "number", "minimum": s["min"]}
        if "max" in s:
            out["maximum"] = s["max"]
        return out
    out = {"type": "string"}
    if t in ("string", "id"):
        lo = s.get("min", 1 if t == "id" else 0)
        if lo:
            out["minLength"] = lo
        if "max" in s:
            out["maxLength"] = s["max"]
    patterns = {"sha256": "^[0-9a-f]{64}$", "base64": "^[A-Za-z0-9+/]*$", "path": "^/",
                "version": "^(0\\.0*[1-9][0-9]*|[1-9][0-9]*\\.[0-9]+)$"}
    if t in patterns:
        out["pattern"] = patterns[t]
    if t == "time":
        out["format"] = "date-time"
    return out


def schema_field(f):
    item = schema_scalar(f)
    s = f.spec
    if f.shape == "list":
        item = {"type": "array", "items": item}
        for a, b in (("min_items", "minItems"), ("max_items", "maxItems")):
            if a in s:
                item[b] = s[a]
    elif f.shape == "map":
        item = {"type": "object", "additionalProperties": item}
        if "max_items" in s:
            item["maxProperties"] = s["max_items"]
    if f.const is None and f.optional:
        item = {"anyOf": [item, {"type": "null"}]}
    if f.const is None and f.has_default:
        item = {**item, "default": s["default"]}
    return {**item, "description": f.doc}


def schema_record(rec, extra=()):
    fields = list(extra) + rec.fields
    out = {"type": "object", "description": rec.doc, "properties": {f.name: schema_field(f) for f in fields},
           "additionalProperties": False}
    required = [f.name for f in fields if f.is_required]
    if required:
        out["required"] = required
    return out


def gen_schema(model):
    defs = {}
    for t in model.order:
        if isinstance(t, Record):
            defs[t.name] = schema_record(t)
        else:
            defs[t.name] = {"description": t.doc, "oneOf": [
                schema_record(rec, [Field({"name": t.by, "const": name, "doc": "variant"}, rec.name, model)])
                for name, rec in t.variants]}
    methods = {m.name: {"params": schema_record(m.params), "result": schema_record(m.results)}
               for m in model.methods}
    doc = {"$comment": "Generated by ./dev gen from protocol/eip. Do not edit.",
           "$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": defs, "methods": methods}
    return json.dumps(doc, indent=1, ensure_ascii=False) + "\n"


# ---- documentation ----------------------------------------------------------------------------

def md_type(f):
    if f.const is not None:
        return f"`\"{f.const}\"`"
    name = f.type_name
    if f.of is not None:
        name = f"[{name}](#{name.lower()})"
    if f.shape == "list":
        return f"list of {name}"
    if f.shape == "map":
        return f"map of {name}"
    return name


def md_range(f):
    s, parts = f.spec, []
    lo, hi = s.get("min"), s.get("max")
    if f.type_name in ("string", "id"):
        word = " characters"
        if f.type_name == "id" and lo is None:
            lo = 1
        if f.type_name == "id" and hi is None:
            lo = None
    else:
        word = ""
    if lo is not None and hi is not None:
        parts.append(f"{lo}..{hi}{word}")
    elif lo is not None:
        parts.append(f"≥ {lo}{word}")
    elif hi is not None:
        parts.append(f"≤ {hi}{word}")
    if "only" in s:
        parts.append(json.dumps(s["only"]))
    if "min_items" in s or "max_items" in s:
        parts.append(f"{s.get('min_items', 0)}..{s.get('max_items', '')} items")
    if s.get("unit"):
        parts.append(s["unit"])
    return ", ".join(parts)


def md_presence(f):
    if f.const is not None or f.is_required:
        return "required"
    if f.optional:
        return "optional"
    if f.shape != "one":
        return "empty"
    return "`" + json.dumps(f.spec["default"]) + "`"


def md_fields(fields, title):
    if not fields:
        return [f"{title}: none.", ""]
    out = [f"| {title} | type | default | range, unit | meaning |", "| --- | --- | --- | --- | --- |"]
    for f in fields:
        out.append(f"| `{f.name}` | {md_type(f)} | {md_presence(f)} | {md_range(f)} | {f.doc} |")
    return out + [""]


SCALAR_DOC = [
    ("bool", "`true` or `false`"),
    ("u64", "integer 0..2^64-1 as plain digits; never text, never `1.0`"),
    ("u32", "integer 0..2^32-1"),
    ("i32", "integer -2^31..2^31-1"),
    ("f64", "finite number"),
    ("string", "text; lengths count Unicode characters"),
    ("id", "text of one or more characters that only its maker understands"),
    ("path", "absolute path: `/` separated, no empty, `.` or `..` part, no NUL, no slash at the end but for a root "
             "(`/`, `/C:/`, `/UNC/server/share/`)"),
    ("base64", "standard alphabet, no padding, unused bits zero"),
    ("sha256", "64 lower-case hex digits"),
    ("version", "two numbers with a dot between, not both zero"),
    ("time", "RFC 3339 in UTC with `Z`; written with 0, 3, 6 or 9 digits of a second"),
]


def gen_docs(model):
    o = ["<!-- Generated by ./dev gen from protocol/eip. Do not edit. -->", "# EIP: methods and types", "",
         f"Protocol version `{model.index['protocol_version']}`, {len(model.methods)} methods. "
         "Unknown fields are refused, everywhere. `null` stands for absence in optional fields only. "
         "What equals its default, an empty list or map and an absent optional field are left out on output; "
         "keys come out sorted.", "", "## Methods", "",
         "| method | scope | replay | runs on | lane | offered | since |",
         "| --- | --- | --- | --- | --- | --- | --- |"]
    for m in model.methods:
        s = m.spec
        runs = s["where"] + (", bulk" if s["bulk"] else "")
        o.append(f"| [`{m.name}`](#{m.name.replace('.', '')}) | {s['scope']} | {s['replay']} | {runs} | {s['lane']} "
                 f"| {s['feature'] if s['handler'] else 'no'} | {s['since']} |")
    o.append("")
    for doc, methods in model.chapters:
        o += [f"## {doc}", ""]
        for m in methods:
            o += [f"### {m.name}", "", m.spec["summary"], ""]
            if m.spec.get("transfer"):
                o += [f"Transfer: {m.spec['transfer']}.", ""]
            o += md_fields(m.params.fields, "param") + md_fields(m.results.fields, "result")
            if m.spec["errors"]:
                o += ["Errors: " + ", ".join(f"`{e}`" for e in m.spec["errors"]) + ".", ""]
    o += ["## Types", "", "| scalar | form |", "| --- | --- |"]
    o += [f"| {n} | {d} |" for n, d in SCALAR_DOC]
    o.append("")
    for t in sorted(model.types.values(), key=lambda t: t.name.lower()):
        o += [f"### {t.name}", "", t.doc, ""]
        if isinstance(t, Enum):
            o += ["One of " + ", ".join(f"`{v}`" for v in t.values) + ".", ""]
        elif isinstance(t, Record):
            o += md_fields(t.fields, "field")
        else:
            for name, rec in t.variants:
                o += [f"With `\"{t.by}\":\"{name}\"`: {rec.doc}.", ""] + md_fields(rec.fields, "field")
    o += ["## Errors", "", "| type | code | usual hint | meaning |", "| --- | --- | --- | --- |"]
    o += [f"| `{t['name']}` | {t['code']} | `{t['retry_hint']}` | {t['doc']} |" for t in model.errors["types"]]
    return "\n".join(o) + "\n"


# ---- fuzz dictionary --------------------------------------------------------------------------

def gen_dictionary(model):
    words = set()
    for rec in model.records():
        for f in rec.fields:
            words.add(f'"{f.name}":')
            if f.const is not None:
                words.add(f'"{f.const}"')
    for t in model.types.values():
        if isinstance(t, Union):
            words.add(f'"{t.by}":')
    for e in model.enums():
        words |= {f'"{v}"' for v in e.values}
    words |= {f'"{m.name}"' for m in model.methods}
    words |= {'"jsonrpc":"2.0"', '"id":', '"method":', '"params":{', '"result":', '"error":', '"eip_session":',
              '"tc_ext":1', "null", "true", "false", "18446744073709551615", "-9223372036854775808", "1.0"}
    quote = lambda w: '"' + w.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "\n".join(["# Generated by ./dev gen from protocol/eip. Do not edit."] +
                     [quote(w) for w in sorted(words)]) + "\n"


# ---- main -------------------------------------------------------------------------------------

def outputs(model, pi):
    return {
        "src/proto/gen/pi_env.h": gen_pi_h(pi),
        "src/proto/gen/pi_env.c": gen_pi_c(pi),
        "docs/pi-env.md": gen_pi_docs(pi),
        "tests/fuzz/proto/pi_env.dict": gen_pi_dictionary(pi),
        "include/telechir/error_codes.h": gen_error_codes_h(model),
        "src/base/gen/error_table.h": gen_error_table_h(model),
        "src/proto/gen/eip.h": gen_eip_h(model),
        "src/proto/gen/eip.c": gen_eip_c(model),
        "src/proto/gen/errors.h": gen_errors_h(model),
        "src/proto/gen/errors.c": gen_errors_c(model),
        "src/daemon/gen/handlers.h": gen_handlers_h(model),
        "src/daemon/gen/handlers.c": gen_handlers_c(model),
        "protocol/schema/eip.json": gen_schema(model),
        "docs/protocol.md": gen_docs(model),
        "tests/fuzz/proto/eip.dict": gen_dictionary(model),
    }


def read(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        return None


def main(argv):
    if argv not in ([], ["--check"]):
        print("usage: tools/gen.py [--check]", file=sys.stderr)
        return 2
    try:
        files = outputs(Model(), PiModel())
    except (TableError, KeyError) as e:
        print(f"tools/gen.py: {e}", file=sys.stderr)
        return 1
    stale = [name for name, text in files.items() if read(os.path.join(ROOT, name)) != text]
    if argv:
        for name in stale:
            print(f"stale: {name} (run ./dev gen)")
        return 1 if stale else 0
    for name in stale:
        path = os.path.join(ROOT, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write(files[name])
        os.replace(path + ".new", path)
        print(f"wrote {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
