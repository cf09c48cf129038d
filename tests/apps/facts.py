"""Prints a fact of a checkpoint, or changes it: facts.py FILE NAME [JSON]. "none" as JSON removes the fact."""
import json
import sys

import h5py

path, name, *values = sys.argv[1:]
with h5py.File(path, "r+" if values else "r") as file:
    facts = json.loads(file.attrs["facts"])
    if not values:
        print(facts[name] if isinstance(facts[name], str) else json.dumps(facts[name]))
    elif values[0] == "none":
        del facts[name]
    else:
        facts[name] = json.loads(values[0])
    if values:
        file.attrs["facts"] = json.dumps(facts)
