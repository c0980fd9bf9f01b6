#!/usr/bin/env python3
"""Writes devices/*.json and devices/toolchains/*.json from the tables in tools/devices/facts/.

    tools/devices/make_profiles.py [--check] [--out DIR]

The output depends on nothing else: twice the same facts, twice the same bytes. --check writes nothing and fails if a
file differs, is missing, or is there without a fact behind it.
"""

import argparse
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from facts import Cores, FactError, apply_more, fact, hexagon, read_row, table, values  # noqa: E402
from toolchains import hexagon_features, toolchains  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HAND_WRITTEN = {"schema.json", "toolchain.schema.json", "efficiency.json"}
# Which toolchains compile for which NPU; the first is taken where none is asked for.
COMPILERS = [
    (r"Hexagon.*", ["onnxruntime-qnn", "executorch-qnn", "qairt"]),
    (r"RKN(N|PU).*", ["rknn-toolkit2"]),
    (r"Apple Neural Engine.*", ["coreml-ane", "onnxruntime-coreml", "executorch-coreml"]),
    (r"NPU \d.*|Intel AI Boost.*", ["openvino-npu"]),
    (r".*DaVinci AI Core.*", ["onnxruntime-cann"]),
    (r".*G-NPU.*", ["executorch-enn"]),
    (r"Ethos U(55|65).*", ["vela-ethos-u55-u65"]),
    (r"Ethos U55.*", ["executorch-ethos-u55"]),
    (r"Ethos U85.*", ["vela-ethos-u85", "executorch-ethos-u85"]),
]


def vela_id(row):
    """Ethos-U: one profile a size and system configuration of Vela's."""
    config = row["dram_type"].split("_", 2)[2].removeprefix("SYS_")
    return f"ethos-{row['key']}-{config}".lower().replace("_", "-")


def vela_aliases(rows):
    """The last configuration of a size is its fastest and stands for the size; the largest size for the family."""
    out, family = {}, {}
    for row in rows:
        size = "ethos-" + row["key"].lower()
        out[size] = family[size.rsplit("-", 1)[0]] = vela_id(row)
    aliases = {}
    for alias, device in [*out.items(), *family.items()]:
        aliases.setdefault(device, []).append(alias)
    return aliases


def static_shapes(chains, contents):
    """From the first of its toolchains that says so: True where shapes are fixed when compiled."""
    for chain in chains:
        for trait in contents[chain]["traits"]:
            stated = trait["support"] in ("no", "partial") and trait.get("constraint") not in (None, "not in the table")
            if trait["trait"] == "dynamic_shape" and stated:
                return fact(True, trait["source"], "published", trait["constraint"])
    return None


ORDER = {
    "memory": ["type", "sizes_bytes", "max_bytes", "system_cache_bytes", "bandwidth_gb_per_s"],
    "cpu": ["clusters", "isa_note"],
    "gpu": ["name", "cores", "clock_mhz", "peak_tops", "limits"],
    "npu": ["name", "architecture", "generation", "cores", "clock_mhz", "macs_per_cycle", "peak_tops", "dtypes", "features", "sram_bytes",
            "sram_per_tile_bytes", "sram_port_gb_per_s", "dma_bytes_per_cycle", "dma_outstanding", "limits"],
}


def ordered(name, entries):
    return {key: entries[key] for key in sorted(entries, key=ORDER[name].index)}


def finish(profile, ident, row, by_stem, contents):
    npu = profile.pop("npu")
    name = npu.get("name", "")
    generation = hexagon(name)
    if generation:
        npu["architecture"] = f"hexagon-v{generation}"
        npu["generation"] = generation
        have, source = hexagon_features(generation)
        npu["features"] = values(have, source, "published")
    chains = [by_stem[stem] for pattern, stems in COMPILERS if re.fullmatch(pattern, name) for stem in stems]
    fixed = static_shapes(chains, contents)
    if fixed:
        npu.setdefault("limits", {})["static_shapes_only"] = fixed
    profile["units"]["npu"] = npu
    units = {unit: ordered(unit, profile["units"][unit]) for unit in ("cpu", "gpu", "npu") if profile["units"].get(unit)}
    out = {"$schema": "./schema.json", "id": ident["id"], "name": ident["name"], "kind": row["kind"], "vendor": row["vendor"]}
    out["family"] = ident["family"]
    out["aliases"] = [alias for alias in dict.fromkeys(ident["aliases"]) if alias.lower() not in ("", ident["id"])]
    out["memory"], out["units"] = ordered("memory", profile["memory"]), units
    for key in ("links", "power", "heat"):
        if profile.get(key):
            out[key] = profile[key]
    if chains:
        out["toolchains"] = chains
    if profile["notes"]:
        out["notes"] = profile["notes"]
    return out


def profiles(contents):
    cores, by_stem = Cores(), {name.removesuffix("-" + content["version"]): name for name, content in contents.items()}
    rows = table("devices.csv")
    idents = {row["key"]: {**row, "aliases": row["aliases"].split(";")} for row in table("ids.csv")}
    more = table("more.csv")
    vela = [row for row in rows if row["dram_type"].startswith("Ethos_U")]
    vela_names = vela_aliases(vela)
    known = {row["key"] for row in rows}
    for key in idents.keys() - known:  # devices that only more.csv speaks of
        vendor = {"Ethos": "Arm", "Kirin": "HiSilicon", "Intel": "Intel"}[re.match(r"[A-Za-z]+", key)[0]]
        blank = dict.fromkeys(rows[0], "")
        rows.append({**blank, "key": key, "kind": "npu_ip" if vendor == "Arm" else "soc", "vendor": vendor})
    unused = {row["key"] for row in more} - idents.keys()
    out = {}
    for row in rows:
        if row in vela:
            config = row["dram_type"].removeprefix("Ethos_")
            name = vela_id(row)
            ident = {"id": name, "name": f"Arm Ethos-{row['key']} ({config.replace('_', ' ')})", "aliases": vela_names.get(name, []),
                     "family": "ethos-" + row["key"].split("-")[0].lower()}
        elif row["key"] not in idents:
            raise FactError(f"devices.csv: '{row['key']}' has no row in ids.csv (an empty id leaves it out)")
        elif not idents[row["key"]]["id"]:
            continue
        else:
            ident = dict(idents[row["key"]])
            ident["aliases"] = [*ident["aliases"], row["key"]]
        own = [fact_row for fact_row in more if fact_row["key"] == row["key"]]
        try:
            profile = read_row(row, cores, {fact_row["path"] for fact_row in own})
            names = [fact_row["value"] for fact_row in own if fact_row["path"] == "npu.name"]
            generation = hexagon(names[-1] if names else row["npu"])
            groups = {"*" + ident["family"], "*hexagon" if generation else ""}
            unused -= groups
            shared = [fact_row for fact_row in more if fact_row["key"] in groups]
            if not profile["npu"] and not any(fact_row["path"].startswith("npu.") for fact_row in own):
                shared = [fact_row for fact_row in shared if not fact_row["path"].startswith("npu.") and "npu" not in fact_row["path"]]
            apply_more(profile, shared + own, cores)
            finished = finish(profile, ident, row, by_stem, contents)
        except FactError as error:
            raise FactError(f"{row['key']}: {error}") from error
        if ident["id"] in out:
            raise FactError(f"{row['key']}: id '{ident['id']}' is taken")
        out[ident["id"]] = finished
    if unused:
        raise FactError(f"more.csv: no such device: {', '.join(sorted(unused))}")
    return out


def everything():
    """Path below devices/ -> content."""
    contents = toolchains()
    files = {f"toolchains/{name}.json": content for name, content in contents.items()}
    files.update((f"{name}.json", content) for name, content in profiles(contents).items())
    return files


def text_of(content):
    """JSON with one line a fact, so that a changed figure is a changed line."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    # Innermost objects and lists that hold no other object are joined.
    inner = re.compile(r"([\[{])\n\s+([^\[\]{}\n]+(?:\n[^\[\]{}\n]+)*)\n\s*([\]}])")

    def join(match):
        open_, body, close = match.groups()
        return open_ + re.sub(r",\n\s+", ", ", body) + close

    text = inner.sub(join, text)
    return text + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file is not what it should be")
    parser.add_argument("--out", default=os.path.join(ROOT, "devices"), help="the folder to write (default: devices/)")
    options = parser.parse_args()
    try:
        want = {path: text_of(content) for path, content in everything().items()}
    except FactError as error:
        sys.exit(f"make_profiles: {error}")
    found = set()
    for folder in ("", "toolchains"):
        here = os.path.join(options.out, folder)
        if os.path.isdir(here):
            found.update(os.path.join(folder, name) for name in os.listdir(here) if name.endswith(".json"))
    stale = sorted(found - want.keys() - HAND_WRITTEN)
    wrong = []
    for path, text in sorted(want.items()):
        full = os.path.join(options.out, path)
        try:
            with open(full, encoding="utf-8") as file:
                same = file.read() == text
        except FileNotFoundError:
            same = False
        if same:
            continue
        wrong.append(path)
        if not options.check:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
    if options.check:
        for path in wrong:
            print(f"{path}: is not what the facts give (tools/devices/make_profiles.py writes it)")
        for path in stale:
            print(f"{path}: no fact gives it")
        sys.exit(1 if wrong or stale else 0)
    for path in stale:
        print(f"make_profiles: {path}: no fact gives it; left alone")
    print(f"make_profiles: {len(want)} files, {len(wrong)} changed")


if __name__ == "__main__":
    main()
