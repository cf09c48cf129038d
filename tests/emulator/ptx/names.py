"""The operands of PTX as texts of C++."""
import re

from instructions import BITS

SPECIAL_REGISTERS = {"%laneid": "thread_idx.x % 32", "WARP_SZ": "32"}
for name, variable in (("%tid", "thread_idx"), ("%ctaid", "block_idx"), ("%ntid", "block_dim"),
                       ("%nctaid", "grid_dim")):
    SPECIAL_REGISTERS[f"{name}.x"] = f"{variable}.x"
    for axis in "yz":
        SPECIAL_REGISTERS[f"{name}.{axis}"] = "1" if "n" in name else "0"


class Unknown(Exception):
    """The translator does not know an instruction or its operand; the text names it."""


def number_type(kind):
    """The type of C++ for values of a PTX type. 16-bit floating-point numbers are read as f32."""
    return {"f16": "f32", "bf16": "f32", "pred": "bool"}.get(kind, kind.replace("b", "u"))


def split(text):
    """The operands between commas that stand in no brackets."""
    return [part.strip() for part in
            re.findall(r"(?:[^,{(\[]|\{[^}]*\}|\([^)]*\)|\[[^\]]*\])+", text)]


class Names:
    """The registers, variables and parameters of a function, by blocks.

    A register is a pair of its type and its name in C++, everything else the text of its address.
    """

    def __init__(self, symbols, functions):
        self.blocks = [dict(symbols)]
        self.functions = functions
        self.count = 0
        self.declarations = {}

    def open_block(self):
        self.blocks.append({})
        self.count += 1

    def close_block(self):
        self.blocks.pop()

    def add_register(self, name, kind, count):
        kind = kind if kind in ("f32", "f64") else "bool" if kind == "pred" else f"u{BITS[kind]}"
        suffix = f"_{self.count}" if len(self.blocks) > 1 else ""
        for name in [f"{name}{i}" for i in range(int(count))] if count else [name]:
            self.blocks[-1][name] = (kind, f"r_{name.lstrip('%')}{suffix}")

    def add_variable(self, name, size):
        self.count += 1
        variable = f"v_{name.replace('$', '_')}_{self.count}"
        self.declarations[variable] = f"alignas(16) u8 {variable}[{size}];"
        self.blocks[-1][name] = f"u64({variable})"

    def find(self, name):
        for block in reversed(self.blocks):
            if name in block:
                return block[name]
        raise Unknown(f"operand {name}")

    def register(self, operand):
        found = self.find(operand)
        if isinstance(found, str):
            raise Unknown(f"operand {operand}")
        self.declarations[found[1]] = f"{found[0]} {found[1]}{{}};"
        return found

    def sum(self, operand):
        """The address that a register or a symbol and perhaps a number name."""
        name, offset = re.fullmatch(r"([^+]+?)\s*(?:\+\s*(-?\w+))?", operand).groups()
        found = self.find(name)
        text = found if isinstance(found, str) else self.register(name)[1]
        return f"({text} + {offset})" if offset and offset != "0" else text

    def read(self, operand, kind):
        """An operand as a value of a type."""
        if operand.startswith("!") and kind == "pred":
            return f"!{self.read(operand[1:], kind)}"
        if re.fullmatch(r"-?\d\w*", operand):
            return constant(operand, kind)
        if operand in SPECIAL_REGISTERS:
            own, text = "u32", f"u32({SPECIAL_REGISTERS[operand]})"
        elif "+" in operand or isinstance(self.find(operand), str):
            own, text = "u64", self.sum(operand)
        else:
            own, text = self.register(operand)
        if kind in ("f16", "bf16") and own == "u16":
            return f"of_{kind}({text})"
        wanted = number_type(kind)
        if own == wanted:
            return text
        if (own[0] == "f" or wanted[0] == "f" or "bool" in (own, wanted)) and own[1:] != wanted[1:]:
            raise Unknown(f"operand {operand} as {kind}")
        return f"as<{wanted}>({text})" if own[1:] == wanted[1:] else f"{wanted}({text})"

    def assign(self, operand, kind, value):
        """A statement that gives a value of a type to a register, extended by its sign."""
        if operand == "_":
            return f"static_cast<void>({value});"
        own, name = self.register(operand)
        given = number_type(kind)
        if own == given:
            return f"{name} = {value};"
        if own[0] == "f" or given[0] == "f" or "bool" in (own, given):
            if own[1:] != given[1:]:
                raise Unknown(f"operand {operand} of {kind}")
            return f"{name} = as<{own}>({given}({value}));"
        return f"{name} = {given}({value});"

    def address(self, operand):
        return self.sum(operand.strip("[] "))


def constant(text, kind):
    """A number, or the bits of one, as a value of a type."""
    if kind == "pred":
        return "false" if text == "0" else "true"
    bits = int(text[2:], 16) if text[:2] in ("0f", "0F", "0d", "0D") else int(text.rstrip("U"), 0)
    if kind[0] == "f" and text[:2].lower() != {"f32": "0f", "f64": "0d"}.get(kind):
        raise Unknown(f"operand {text} as {kind}")
    bits = f"{bits % (1 << BITS[kind]):#x}"
    if kind[0] == "f":
        return f"as<{kind}>(u{BITS[kind]}({bits}))"
    return f"{number_type(kind)}({bits})"
