#!/usr/bin/env python3
"""Makes a kernel of PTX for each instruction of the table in a test: make_ptx.py TEST.cc OUT.ptx

A line "[TYPES]" tells the types of the registers of the instructions below it, the result's first.
An instruction's kernel has its name. It reads the sources from memory, 8 bytes each, and writes the
result before them.
"""
import re
import sys

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def kernel(types, instruction):
    registers = [f"%{letter}" for letter in "rabcd"[:len(types)]]
    lines = [f"  .reg .{kind} {register};" for kind, register in zip(types, registers)]
    lines += ["  .reg .b64 %place;", "  .reg .b32 %word;", "  ld.param.b64 %place, [place];"]
    for i, (kind, register) in list(enumerate(zip(types, registers)))[1:]:
        if kind == "pred":
            lines += [f"  ld.global.b32 %word, [%place+{8 * i}];",
                      f"  setp.ne.b32 {register}, %word, 0;"]
        else:
            lines.append(f"  ld.global.{kind} {register}, [%place+{8 * i}];")
    lines.append(f"  {instruction} {', '.join(registers)};")
    if types[0] == "pred":
        lines += ["  selp.b32 %word, 1, 0, %r;", "  st.global.b32 [%place], %word;"]
    else:
        lines.append(f"  st.global.{types[0]} [%place], %r;")
    name = instruction.replace(".", "_")
    return "\n".join([f"\n.visible .entry {name}(.param .b64 place)\n{{", *lines, "  ret;\n}\n"])


def main(test, target):
    with open(test) as file:
        table = re.search(r'R"\((.*)\)"', file.read(), re.DOTALL)[1]
    kernels = {}
    for line in table.strip().split("\n"):
        if line.startswith("["):
            types = line.strip("[]").split()
            continue
        for name in line.partition(":")[0].split():
            kernels[name] = kernel(types, name)
    with open(target, "w") as file:
        file.write(HEAD + "".join(kernels.values()))


if __name__ == "__main__":
    main(*sys.argv[1:])
