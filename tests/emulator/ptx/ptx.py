#!/usr/bin/env python3
"""Translates the kernels of an object file of nvcc to C++ for the emulator: ptx.py OBJECT OUT.cc

nvcc embeds a kernel's PTX in the object file, as text if it is told -no-compress. Each kernel
becomes a function that runs one thread, and registers itself by its mangled name, so OUT.cc only
has to be compiled and linked. A kernel with an instruction that is not known ends the program when
it runs, and is named here. OBJECT may also be a file of PTX.
"""
import re
import struct
import sys

from instructions import BITS
from names import Names, Unknown, split
from statements import label, translate

HEAD = """// Translated by ptx.py from {source}.
#include "tests/emulator/ptx/ptx.h"

namespace emulator {{
namespace {{
"""
CHECK = """
inline void check(u64 address, u32 bytes, bool writes) {
  %scheck_access(pointer(address), bytes, writes, false);
}
"""
FOOT = """
}  // namespace
}  // namespace emulator
"""


class Failure(Exception):
    """The object file cannot be translated."""


def section(data, wanted):
    """The bytes of a section of a 64-bit ELF file; empty if it has none."""
    headers, = struct.unpack_from("<Q", data, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", data, 0x3a)
    sections = [struct.unpack_from("<IIQQQQ", data, headers + size * i) for i in range(count)]
    names = data[sections[names_at][4]:][:sections[names_at][5]]
    for name, _, _, _, offset, length in sections:
        if names[name:names.index(b"\0", name)] == wanted:
            return data[offset:offset + length]
    return b""


def embedded_ptx(path):
    """The PTX of the newest architecture in a file; empty if it contains no code of a device."""
    with open(path, "rb") as file:
        data = file.read()
    if not data.startswith(b"\x7fELF"):
        return data.decode()
    fatbin = section(data, b".nv_fatbin")
    texts = [text[0].decode() for text in re.finditer(rb"\.version [^\0]*", fatbin)]
    if fatbin and not texts:
        raise Failure("It contains device code, but no plain PTX. Compile it with -no-compress")
    return max(texts, key=lambda text: int(re.search(r"\.target sm_(\d+)", text)[1]), default="")


class Function:
    """An .entry or a .func."""

    def __init__(self, found, number):
        kind, results, self.name, parameters = found.group(1, 2, 3, 4)
        self.is_kernel = kind == "entry"
        self.identifier = f"{'kernel' if self.is_kernel else 'function'}_{number}"
        self.start = found.end()
        self.results = self.layout(results)
        self.parameters = self.layout(parameters)

    def layout(self, text):
        """Name, offset and size of each parameter."""
        layout, end = [], 0
        for parameter in split((text or "").strip("() \n\t")):
            found = re.fullmatch(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+"
                                 r"(?:\.ptr\b[\s.\w]*\s)?([\w$]+)(?:\[(\d+)\])?", parameter)
            if not found:
                raise Failure(f"The parameter '{parameter}' of {self.name} is not known")
            align, kind, name, count = found.groups()
            end += -end % int(align or BITS[kind] // 8)
            layout.append((name, end, BITS[kind] // 8 * int(count or 1)))
            end += layout[-1][2]
        self.bytes = end
        return layout

    def head(self):
        if self.is_kernel:
            return f"void {self.identifier}(const u8* parameters)"
        names = [f"p{i}" for i in range(len(self.results + self.parameters))]
        return f"void {self.identifier}({', '.join(f'u64 {name}' for name in names)})"

    def symbols(self):
        """Addresses of the parameters: of a kernel in a block, of a function each one."""
        if self.is_kernel:
            return {name: f"u64(parameters + {offset})" for name, offset, _ in self.parameters}
        return {name: f"p{i}" for i, (name, _, _) in enumerate(self.results + self.parameters)}

    def body(self, text, names):
        """The lines of C++, and what is not known."""
        lines = []
        try:
            for found in re.compile(r"\s*(?:([\w$%]+):(?!:)|([{}])|([^{};][^;]*)?;)").finditer(
                    text, self.start):
                target, brace, statement = found.groups()
                if target:
                    lines.append(f"{label(target)}:;")
                elif brace == "{":
                    names.open_block()
                elif brace and len(names.blocks) == 1:
                    return [*names.declarations.values(), *lines], None
                elif brace:
                    names.close_block()
                elif statement and statement.startswith("."):
                    declare(names, statement)
                elif statement:
                    lines.append(translate(names, statement.strip()))
        except Unknown as unknown:
            problem = " ".join(str(unknown).replace('"', "'").split())
            return [f'stop_at_unknown("{self.name}", "{problem}");'], problem
        raise Failure(f"{self.name} has no end")

    def registration(self):
        """The lines that make a kernel known to the emulator."""
        numbers = self.identifier.replace("kernel", "layout")
        layout = ", ".join(f"{{{offset}, {size}}}" for _, offset, size in self.parameters)
        values = [f'"{self.name}"', self.identifier, numbers if layout else "nullptr",
                  str(len(self.parameters)), str(self.bytes)]
        lines = [f"const u32 {numbers}[][2] = {{{layout}}};"] if layout else []
        return [*lines, f"const KnownKernel known_{self.identifier}({{{', '.join(values)}}});"]


def declare(names, statement):
    """A declaration in a body: .reg .b32 %r<7>, or .local .align 8 .b8 name[16]"""
    if re.match(r"\.(?:pragma|loc|file)\b", statement):
        return
    found = re.fullmatch(r"\.(reg|local|param)\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(.*)", statement,
                         re.DOTALL)
    if not found or found[2] not in BITS:
        raise Unknown(statement)
    for variable in split(found[3]):
        name, count = re.fullmatch(r"([\w$%]+)(?:[<\[](\d+)[>\]])?", variable).groups()
        if found[1] == "reg":
            names.add_register(name, found[2], count)
        else:
            names.add_variable(name, BITS[found[2]] // 8 * int(count or 1))


def tables(text):
    """Lines and addresses of the variables with values, such as the tables of sinf."""
    lines, symbols = [], {}
    for align, kind, name, count, values in re.findall(
            r"^(?:\.visible\s+|\.weak\s+)*\.(?:const|global)\s+\.align\s+(\d+)\s+\.(\w+)\s+([\w$]+)"
            r"(?:\[(\d+)\])?\s*=\s*\{([^}]*)\};", text, re.MULTILINE):
        field = name.replace("$", "_")
        lines.append(f"alignas({align}) u{BITS[kind]} {field}[{count or 1}] = {{{values}}};")
        symbols[name] = f"u64(tables.{field})"
    return lines, symbols


def translation(text, source):
    """The file of C++, all functions, and what is not known in which of them."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    lines, symbols = tables(text)
    own = "if (address - u64(&tables) < sizeof tables && !writes) return;\n  " if lines else ""
    output = [HEAD.format(source=source)]
    if lines:
        output += ["const struct {", *lines, "} tables;"]
    output.append(CHECK % own)
    found = re.finditer(r"\.(entry|func)\s*(\([^)]*\))?\s*([\w$]+)\s*(\([^)]*\))?[^{};]*\{", text)
    functions = [Function(match, number) for number, match in enumerate(found)]
    callees = {function.name: function.identifier
               for function in functions if not function.is_kernel}
    unknown = {}
    output += [f"{function.head()};" for function in functions]
    for function in functions:
        body, problem = function.body(text, Names(symbols | function.symbols(), callees))
        if problem:
            unknown[function.name] = problem
        output += ["", f"// {function.name}", f"{function.head()} {{", *body, "}"]
        if function.is_kernel:
            output += function.registration()
    return "\n".join([*output, FOOT]), functions, unknown


def main(path, target):
    try:
        output, functions, unknown = translation(embedded_ptx(path), path.rpartition("/")[2])
    except Failure as failure:
        sys.exit(f"ptx.py: {path} cannot be translated. {failure}.")
    with open(target, "w") as file:
        file.write(output)
    for name, instruction in unknown.items():
        print(f"ptx.py: {name} contains '{instruction}', which is not known. Add it to "
              f"instructions.py or statements.py.", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
