"""Statements of PTX as statements of C++ that use ptx.h.

INSTRUCTIONS knows those that compute a value from values, and OTHERS has a function for each other
kind: comparisons, memory, control. Everything else is Unknown.
"""
import re

from instructions import BITS, INSTRUCTIONS
from names import Unknown, number_type, split

COMPARISONS = {"eq": "a == b", "lt": "a < b", "le": "a <= b", "gt": "a > b", "ge": "a >= b"}
COMPARISONS_OF_INTEGERS = COMPARISONS | {
    "ne": "a != b", "lo": "a < b", "ls": "a <= b", "hi": "a > b", "hs": "a >= b"}
# Those that end with u are true if a or b is NaN.
COMPARISONS_OF_NUMBERS = COMPARISONS | {
    "ne": "a < b || a > b", "equ": "!(a < b || a > b)", "neu": "a != b", "ltu": "!(a >= b)",
    "leu": "!(a > b)", "gtu": "!(a <= b)", "geu": "!(a < b)", "num": "a == a && b == b",
    "nan": "a != a || b != b"}
JOINS = {"and": "&&", "or": "||", "xor": "!="}
ROUNDINGS = {"rz": "_MM_ROUND_TOWARD_ZERO", "rm": "_MM_ROUND_DOWN", "rp": "_MM_ROUND_UP"}
NEW_VALUES = {
    "add": "old + a", "min": "old < a ? old : a", "max": "old > a ? old : a", "and": "old & a",
    "or": "old | a", "xor": "old ^ a", "exch": "a", "cas": "old == a ? b : old",
    "inc": "old >= a ? 0 : old + 1", "dec": "old == 0 || old > a ? a : old - 1"}
ATOMICS = {f"{change}.{kind}" for changes, kinds in (
    ("add", "u32 s32 u64"), ("min max", "u32 s32 u64 s64"), ("and or xor exch cas", "b32 b64"),
    ("inc dec", "u32")) for change in changes.split() for kind in kinds.split()}


def substitute(value, sources):
    """A value of the table with the texts of its sources."""
    return re.sub(r"\b[abcd]\b", lambda letter: sources["abcd".index(letter[0])], value)


def compute(names, instruction, operands):
    """An instruction of the table."""
    types, value = INSTRUCTIONS[instruction]
    if len(operands) != len(types):
        raise Unknown(instruction)
    suffixes = set(instruction.split("."))
    sources = [names.read(*source) for source in zip(operands[1:], types[1:])]
    if "ftz" in suffixes:
        sources = [f"flush({source})" if kind == "f32" else source
                   for source, kind in zip(sources, types[1:])]
    mode = suffixes & ROUNDINGS.keys()
    if value.startswith("rounded(") and mode:
        letters = ", ".join(f"{number_type(kind)} {letter}"
                            for kind, letter in zip(types[1:], "abc"))
        value = (f"rounded<{ROUNDINGS[mode.pop()]}>([]({letters}) "
                 f"{{ return {value.removeprefix('rounded')}; }}, {', '.join(sources)})")
    else:
        value = substitute(value.removeprefix("rounded"), sources)
    if "sat" in suffixes and types[0] in ("f32", "f64"):
        value = f"saturate({value})"
    if "ftz" in suffixes and types[0] == "f32":
        value = f"flush({value})"
    return names.assign(operands[0], types[0], value)


def compare(names, found, operands):
    comparison, join, ftz, kind = found.groups()
    comparisons = COMPARISONS_OF_NUMBERS if kind[0] == "f" else COMPARISONS_OF_INTEGERS
    if comparison not in comparisons or len(operands) != (4 if join else 3) or kind == "f16":
        raise Unknown(found[0])
    sources = [names.read(operand, kind) for operand in operands[1:3]]
    if ftz:
        sources = [f"flush({source})" for source in sources]
    joined = f" {JOINS[join]} {names.read(operands[3], 'pred')}" if join else ""
    texts = [f"const bool holds = {substitute(comparisons[comparison], sources)};"]
    for destination, value in zip(operands[0].split("|"), ("holds", "!holds")):
        texts.append(names.assign(destination.strip(), "pred", value + joined))
    return " ".join(texts)


def elements(operand):
    return [element.strip() for element in operand.strip("{}").split(",")]


def access(names, found, operand, kind, vector, writes):
    """Begins a load or a store: the address, and its check unless it is the thread's own memory."""
    size = BITS[kind] // 8 * int(vector or 1)
    text = f"const u64 at = {names.address(operand)};"
    if found["space"] in (None, "global"):
        text += f" check(at, {size}, {writes});"
    return text


def load(names, found, operands):
    kind, vector = found["kind"], found["vector"]
    if len(operands) != 2 or len(elements(operands[0])) != int(vector or 1):
        raise Unknown(found[0])
    texts = [access(names, found, operands[1], kind, vector, "false")]
    for i, element in enumerate(elements(operands[0])):
        value = f"read<{number_type(kind)}>(at + {BITS[kind] // 8 * i})"
        texts.append(names.assign(element, kind, value))
    return " ".join(texts)


def store(names, found, operands):
    kind, vector = found["kind"], found["vector"]
    if len(operands) != 2 or len(elements(operands[1])) != int(vector or 1):
        raise Unknown(found[0])
    texts = [access(names, found, operands[0], kind, vector, "true")]
    for i, element in enumerate(elements(operands[1])):
        value = names.read(element, kind)
        texts.append(f"write<{number_type(kind)}>(at + {BITS[kind] // 8 * i}, {value});")
    return " ".join(texts)


def move(names, found, operands):
    kind = found["kind"]
    destination, source = operands
    if destination.startswith("{"):
        parts = elements(destination)
        bits = BITS[kind] // len(parts)
        texts = [f"const u{BITS[kind]} whole = {names.read(source, f'b{BITS[kind]}')};"]
        texts += [names.assign(part, f"b{bits}", f"u{bits}(whole >> {bits * i})")
                  for i, part in enumerate(parts)]
        return " ".join(texts)
    if source.startswith("{"):
        parts = elements(source)
        bits = BITS[kind] // len(parts)
        texts = [f"u{BITS[kind]}({names.read(part, f'b{bits}')}) << {bits * i}"
                 for i, part in enumerate(parts)]
        return names.assign(destination, f"b{BITS[kind]}", " | ".join(texts))
    return names.assign(destination, kind, names.read(source, kind))


def convert_address(names, found, operands):
    return names.assign(operands[0], "u64", names.read(operands[1], "u64"))


def atomic(names, found, operands):
    change, kind = found["change"], found["kind"]
    returns = found["name"] == "atom"
    sources = operands[1 if returns else 0:]
    if f"{change}.{kind}" not in ATOMICS or len(sources) != (3 if change == "cas" else 2):
        raise Unknown(found[0])
    value = number_type(kind.replace("s", "u") if change == "add" else kind)
    new = substitute(NEW_VALUES[change], [names.read(source, value) for source in sources[1:]])
    text = (f"atomic<{value}>({names.address(sources[0])}, "
            f"[&]({value} old) -> {value} {{ return {new}; }})")
    return names.assign(operands[0] if returns else "_", value, text)


def shuffle(names, found, operands):
    destination, *predicate = operands[0].split("|")
    sources = ", ".join(names.read(operand, "b32") for operand in operands[1:])
    texts = [f"bool is_found; const u32 word = shuffle({sources}, is_found);",
             names.assign(destination.strip(), "b32", "word")]
    texts += [names.assign(operand.strip(), "pred", "is_found") for operand in predicate]
    return " ".join(texts)


def carry(names, found, operands):
    """add.cc, addc, mad.lo.cc, ...: numbers of several words."""
    name, takes, part, gives, kind = found.groups()
    width = f"u{BITS[kind]}"
    values = [names.read(operand, kind) for operand in operands[1:]]
    if len(values) != (3 if name == "mad" else 2) or (name == "mad") != bool(part):
        raise Unknown(found[0])
    product = {"lo": "u64(a) * b", "hi": "high_product(a, b)", None: "a"}[part]
    function = "subtract_carry" if name == "sub" else "add_carry"
    text = (f"{function}<{width}>({width}({substitute(product, values)}), {width}({values[-1]}), "
            f"beyond)")
    names.declarations["carry"] = "bool carry{};"
    return (f"bool beyond = {'carry' if takes else 'false'}; "
            + names.assign(operands[0], width, text) + (" carry = beyond;" if gives else ""))


def label(name):
    return "L_" + name.strip("$").replace("$", "_")


def branch(names, found, operands):
    return f"goto {label(operands[0])};"


def leave(names, found, operands):
    return "return;"


def call(names, found, operands):
    result = operands.pop(0).strip("() ") if operands[0].startswith("(") else None
    function = operands.pop(0)
    if function not in names.functions:
        raise Unknown(f"call of {function}")
    arguments = split(operands[0].strip("()")) if operands else []
    addresses = [names.sum(argument.strip()) for argument in [result, *arguments] if argument]
    return f"{names.functions[function]}({', '.join(addresses)});"


CACHING = r"(?:\.(?:nc|ca|cg|cs|lu|wb|wt|L1::\w+|L2::\w+))*"
PLACE = rf"(?:\.weak)?(?:\.(?P<space>global|param|local|const))?(?:::\w+)?{CACHING}"
OTHERS = [(re.compile(pattern), function) for pattern, function in (
    (r"mov\.(?P<kind>\w+)", move),
    (rf"ld{PLACE}(?:\.v(?P<vector>[248]))?\.(?P<kind>\w+)", load),
    (rf"st{PLACE}(?:\.v(?P<vector>[248]))?\.(?P<kind>\w+)", store),
    (r"bra(?:\.uni)?", branch),
    (r"setp\.(\w+)(?:\.(and|or|xor))?(\.ftz)?\.(\w+)", compare),
    (r"shfl\.sync\.bfly\.b32", shuffle),
    (r"cvta(?:\.to)?\.(?:global|local|const|param)\.u64", convert_address),
    (r"(?P<name>atom|red)(?:\.relaxed)?(?:\.(?:cta|gpu|sys))?(?:\.global)?\.(?P<change>\w+)"
     r"\.(?P<kind>\w+)", atomic),
    (r"(add|sub|mad)(c?)(?:\.(lo|hi))?(\.cc)?\.(u32|s32|u64|s64)", carry),
    (r"call(?:\.uni)?", call),
    (r"ret(?:\.uni)?", leave))]


def translate(names, statement):
    """The statement of C++ for one of PTX, perhaps with a predicate."""
    predicate, instruction, operands = re.fullmatch(
        r"(?:@(!?[\w%$]+)\s+)?([\w.:]+)\s*(.*)", statement, re.DOTALL).groups()
    if instruction in INSTRUCTIONS:
        text = compute(names, instruction, split(operands))
    else:
        for pattern, function in OTHERS:
            found = pattern.fullmatch(instruction)
            if found:
                text = f"{{ {function(names, found, split(operands))} }}"
                break
        else:
            raise Unknown(instruction)
    return f"if ({names.read(predicate, 'pred')}) {text}" if predicate else text
