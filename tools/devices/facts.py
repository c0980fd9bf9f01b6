"""Device facts, from the tables in facts/ to profiles as devices/schema.json has them.

devices.csv is kept as it was collected: figures stand in sentences there ("8-12 or 20", "67 sparse"). Every form that
occurs is read by one of the patterns below; a cell that none of them matches is an error that names it, so that nothing
is lost in silence. more.csv adds single facts by path and wins over devices.csv; ids.csv gives names; cores.csv says what
instructions a core has.
"""

import csv
import os
import re

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "facts")
KINDS = ("published", "derived", "secondary", "estimate", "measured", "configuration")
COUNTS = {"cores", "sram_bytes", "sram_per_tile_bytes", "macs_per_cycle", "clock_mhz", "dma_bytes_per_cycle", "dma_outstanding"}


class FactError(Exception):
    pass


def table(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def number(text):
    value = float(text)
    return int(value) if value.is_integer() else value


def fact(value, source, kind, note="", bounds=None):
    if not source:
        raise FactError(f"{value}: a figure without a source")
    if kind not in KINDS:
        raise FactError(f"{value}: kind '{kind}' is not one of {', '.join(KINDS)}")
    out = {"value": value}
    if bounds:
        out["range"] = bounds
    out.update(kind=kind, source=source)
    if note:
        out["note"] = note
    return out


def values(items, source, kind, note=""):
    out = fact(0, source, kind, note)
    del out["value"]
    return {"values": items, **out}


def put(profile, path, entry):
    *parents, last = path
    for key in parents:
        profile = profile.setdefault(key, {})
    profile[last] = entry


class Cores:
    def __init__(self):
        self.known = {row["core"]: row for row in table("cores.csv")}

    def clusters(self, text, source, kind, note):
        """ "1x X4 3.3 + 3x A720 3.2 GHz; 8 MB L3" -> one entry a cluster. What follows ; or , is told as a note."""
        match = re.fullmatch(r"(\d+)(?: cores|-core)\b.*", text)
        if match:
            return [{"cores": fact(int(match[1]), source, kind, text)}]
        head, _, rest = text.partition(";")
        shared_clock = re.search(r", (\d\.\d)-(\d\.\d) GHz", head)
        head = re.sub(r",.*| GHz.*", "", head)
        note = "; ".join(filter(None, [note, rest.strip()]))
        out = []
        for term in head.split("+"):
            match = re.fullmatch(r"(\d+)[xPE]? ([A-Z][\w-]*(?: [A-Z][a-z]+)?)(?: (\d+\.\d+|\d+)(?:-(\d\.\d))?)?", term.strip())
            if not match:
                raise FactError(f"cpu: '{text}': '{term.strip()}' is not 'COUNTx CORE CLOCK'")
            core = match[2].replace(" ", "-")
            if core not in self.known:
                raise FactError(f"cpu: '{text}': core '{core}' is not in cores.csv")
            row = self.known[core]
            cluster = {"core": row["name"], "cores": fact(int(match[1]), source, kind, note)}
            clock = match[4] or match[3] or (shared_clock and shared_clock[2])
            if clock:
                lower = match[3] if match[4] else shared_clock and shared_clock[1]
                bounds = [round(float(lower) * 1000), round(float(clock) * 1000)] if lower else None
                cluster["clock_mhz"] = fact(round(float(clock) * 1000), source, kind, bounds=bounds)
            if row["isa"]:
                cluster["isa"] = values(row["isa"].split(), row["source"], "published")
            out.append(cluster)
        return out


def dtypes_of(text):
    """What an NPU computes in, from the prose of npu_dtypes. int4-weights: weights only, beside wider activations."""
    known = {
        "int8, int16 activations, int4 weights; fp16 (V73+; V69 partial)": ["int4-weights", "int8", "int16-activations", "fp16"],
        "int8, int16 activations (no fp16)": ["int8", "int16-activations"],
        "int8, int16 activations (no fp16 on V68)": ["int8", "int16-activations"],
        "int8 (no fp16 on V68)": ["int8"],
        "fp16 compute; int8/4-bit weights via palettisation": ["int4-weights", "int8-weights", "fp16"],
        "int4, int8, int16, fp16": ["int4", "int8", "int16", "fp16"],
        "int4, int8, int16, fp16, bf16, tf32": ["int4", "int8", "int16", "fp16", "bf16", "tf32"],
        "int8, bf16": ["int8", "bf16"],
        "int8, fp16": ["int8", "fp16"],
        "int4 mixed, int8, fp16": ["int4", "int8", "fp16"],
        "int8, int16 activations; int8 weights": ["int8", "int16-activations"],
        "int8/uint8 (CNN)": ["int8"],
    }
    if text not in known:
        raise FactError(f"npu_dtypes: '{text}' is not one of the forms known here")
    return list(known[text])


def hexagon(npu):
    match = re.fullmatch(r"Hexagon HTP V(\d+)", npu)
    return int(match[1]) if match else None


def read_npu(row, profile):
    source, npu = row["sources"], {}
    if row["npu"]:
        npu["name"] = row["npu"]
        cores = re.search(r"\((\d+)-core\)|, (\d) cores", row["npu"])
        if cores:
            npu["cores"] = fact(int(cores[1] or cores[2]), source, "secondary")
    text, note = row["npu_tops_int8"], row["npu_tops_note"]
    on_gpu = note == "GPU tensor cores" or "sparse" in text
    kind = "derived" if note.startswith("derived") else "secondary" if "secondary" in note else "published"
    note = "" if note in ("secondary", "vendor peak") else note
    dtype = "unstated" if row["vendor"] == "Apple" else "int8"
    peaks = {}
    if re.fullmatch(r"[\d.]+", text):
        peaks[dtype] = fact(number(text), source, kind, note)
    elif match := re.fullmatch(r"(\d+)-(\d+)(?: or (\d+))?", text):
        peaks[dtype] = fact(int(match[1]), source, kind, f"{text}: {note or 'by model'}", [int(match[1]), int(match[3] or match[2])])
    elif match := re.fullmatch(r"(?:(\d+) dense / )?(\d+) sparse", text):
        if match[1]:
            peaks["int8"] = fact(int(match[1]), source, kind, note)
        peaks["int8-sparse"] = fact(int(match[2]), source, kind, note)
    elif text:
        raise FactError(f"npu_tops_int8: '{text}' is not understood")
    if peaks:
        put(profile, ("units", "gpu", "peak_tops") if on_gpu else ("npu", "peak_tops"), peaks)
    if row["npu_dtypes"]:
        types = dtypes_of(row["npu_dtypes"])
        version = hexagon(row["npu"])
        if version is not None and version < 73 and "fp16" in types:
            types.remove("fp16")  # V73 and later; V69 in part only
        npu["dtypes"] = values(types, source, "secondary", "" if row["npu_dtypes"] == ", ".join(types) else row["npu_dtypes"])
    for column in ("macs_per_cycle", "clock_mhz"):
        if row[column]:
            npu[column] = fact(number(row[column]), source, "configuration" if row["kind"] == "npu_ip" else "secondary")
    profile.setdefault("npu", {}).update(npu)


def read_sram(row, profile):
    source, npu, memory = row["sources"], profile["npu"], profile["memory"]
    for part in filter(None, re.split(r";\s*", row["onchip_sram"])):
        if match := re.fullmatch(r"(\d+) MB VTCM", part):
            npu["sram_bytes"] = fact(int(match[1]) << 20, source, "published", "VTCM")
        elif match := re.fullmatch(r"SHRAM (\d+) KB(?: per core \((\d) core\))?", part):
            npu["sram_bytes"] = fact((int(match[1]) << 10) * int(match[2] or 1), source, "configuration", part)
        elif match := re.fullmatch(r"SRAM port ([\d.]+) GB/s in this config", part):
            npu["sram_port_gb_per_s"] = fact(number(match[1]), source, "configuration")
        elif match := re.fullmatch(r"(\d+) KB (?:NPU )?L2.*", part):
            npu["sram_bytes"] = fact(int(match[1]) << 10, source, "published", part)
        elif match := re.fullmatch(r"NPU CMX workspace (\d+) KB per tile .*", part):
            npu["sram_per_tile_bytes"] = fact(int(match[1]) << 10, source, "published", part)
        elif match := re.fullmatch(r"(\d+) MB (memory-side cache|system cache \(SoC\))", part):
            memory["system_cache_bytes"] = fact(int(match[1]) << 20, source, "secondary", part)
        elif re.fullmatch(r"64 KB L1 per tile|2 MiB L2 \+ 3 MiB TCM", part):
            profile["notes"].append(part)
        else:
            raise FactError(f"onchip_sram: '{part}' is not understood")


def read_memory(row, profile):
    source, memory = row["sources"], profile["memory"]
    if row["dram_type"]:
        configured = row["dram_bw_kind"] == "Vela config (off-chip)"
        memory["type"] = {"value": ("Vela system config " if configured else "") + row["dram_type"], "source": source}
    if row["dram_bw_gbs"]:
        kind = "configuration" if row["dram_bw_kind"].startswith("Vela config") else row["dram_bw_kind"]
        memory["bandwidth_gb_per_s"] = {"theoretical": fact(number(row["dram_bw_gbs"]), source, kind)}
    text = row["dram_sizes_gb"]
    if match := re.fullmatch(r"up to (\d+)", text):
        memory["max_bytes"] = fact(int(match[1]) << 30, source, "published")
    elif match := re.fullmatch(r"(\d+(?:, \d+)*)( tested| onboard| \(.*\))?", text):
        sizes = [int(size) << 30 for size in match[1].split(", ")]
        memory["sizes_bytes"] = values(sizes, source, "secondary", (match[2] or "").strip(" ()"))
    elif text:
        raise FactError(f"dram_sizes_gb: '{text}' is not understood")


def read_power(row, profile):
    source, text = row["sources"], row["power_w"]
    if match := re.fullmatch(r"(\d+)-(\d+)", text):
        put(profile, ("power", "modes_w"), values([int(match[1]), int(match[2])], source, "published", "lowest and highest mode"))
    elif match := re.fullmatch(r"(\d+)(?: \(SoC\))?", text):
        put(profile, ("power", "sustained_w"), fact(int(match[1]), source, "secondary", "the chip's base power"))
    elif match := re.fullmatch(r"([\d.]+)(?: W)? (?:peak wall|wall peak).*", text):
        put(profile, ("power", "peak_wall_w"), fact(number(match[1]), source, "measured", "whole machine, at the wall"))
    elif text:
        raise FactError(f"power_w: '{text}' is not understood")


def read_notes(row, profile):
    rest = row["notes"]
    match = re.match(r"AXI (\d+) bytes/cycle per port, (\d+)-bit address, (\d) outstanding DMA;?\s*", rest)
    if match:
        npu, source = profile["npu"], row["sources"]
        npu["dma_bytes_per_cycle"] = fact(int(match[1]), source, "configuration", "AXI, each port")
        npu["dma_outstanding"] = fact(int(match[3]), source, "configuration")
        put(npu, ("limits", "address_bits"), fact(int(match[2]), source, "configuration"))
        rest = rest[match.end() :].replace("by config transformer", "by config; transformer")
    if rest:
        profile["notes"].append(rest)


def read_row(row, cores, overridden):
    """A row of devices.csv as a profile whose npu still stands outside units; `overridden`: paths more.csv gives."""
    profile = {"memory": {}, "units": {}, "npu": {}, "notes": []}
    source = row["sources"]
    read_npu(row, profile)
    read_memory(row, profile)
    read_sram(row, profile)
    read_power(row, profile)
    read_notes(row, profile)
    if row["cpu"] and "cpu.clusters" not in overridden:
        put(profile, ("units", "cpu", "clusters"), cores.clusters(row["cpu"], source, "secondary", ""))
    if row["cpu_isa"]:
        put(profile, ("units", "cpu", "isa_note"), {"value": row["cpu_isa"], "source": source})
    if row["gpu"]:
        put(profile, ("units", "gpu", "name"), row["gpu"])
        match = re.search(r"(\d+(?:\.\d+)?) (MHz|GHz)$", row["gpu"])
        if match:
            clock = number(match[1]) if match[2] == "MHz" else round(float(match[1]) * 1000)
            put(profile, ("units", "gpu", "clock_mhz"), fact(clock, source, "secondary"))
    if row["gpu_fp32_tflops"]:
        match = re.fullmatch(r"([\d.]+)(?: \((.*)\))?", row["gpu_fp32_tflops"])
        peaks = profile["units"].setdefault("gpu", {}).setdefault("peak_tops", {})
        peaks["fp32"] = fact(number(match[1]), source, "secondary", match[2] or "")
    return profile


def more_fact(row):
    """ "38.4" or, with what else is possible, "38.4 (34.1-44)"."""
    match = re.fullmatch(r"([\d.]+)(?: \(([\d.]+)-([\d.]+)\))?", row["value"])
    if not match:
        raise FactError(f"more.csv: {row['key']}: {row['path']}: '{row['value']}' is no number")
    bounds = [number(match[2]), number(match[3])] if match[2] else None
    return fact(number(match[1]), row["source"], row["kind"], row["note"], bounds)


def apply_more(profile, rows, cores):
    """Facts by path; a later row wins over an earlier one and over devices.csv."""
    for row in rows:
        path, text, source = row["path"].split("."), row["value"], row["source"]
        top, last = path[0], path[-1]
        entry = None
        if top == "links":
            units = path[1].split("-")
            link = next((link for link in profile.setdefault("links", []) if link["between"] == units), None)
            if link is None:
                link = {"between": units}
                profile["links"].append(link)
            link[last] = fact(text == "true", source, row["kind"], row["note"]) if last == "shared_memory" else more_fact(row)
            continue
        if top == "heat":
            point = {"celsius": more_fact(row), "action": last}
            profile.setdefault("heat", {}).setdefault("throttle_points", []).append(point)
            continue
        if row["path"] == "cpu.clusters":
            put(profile, ("units", "cpu", "clusters"), cores.clusters(text, source, row["kind"], row["note"]))
            continue
        if row["path"] == "memory.sizes_gb":
            profile["memory"].pop("max_bytes", None)
            path, entry = ["memory", "sizes_bytes"], values([int(size) << 30 for size in text.split(", ")], source, row["kind"], row["note"])
        elif row["path"] == "memory.max_gb":
            path, entry = ["memory", "max_bytes"], fact(int(text) << 30, source, row["kind"], row["note"])
        elif row["path"] == "power.modes_w":
            entry = values([number(bound) for bound in text.split("-")], source, row["kind"], row["note"])
        elif last == "type":
            entry = {"value": text, "source": source}
        elif last == "name":
            entry = text
        elif last == "fp32_tflops":
            path, entry = ["gpu", "peak_tops", "fp32"], more_fact(row)
        elif last in COUNTS or len(path) == 3 and path[1] in ("limits", "peak_tops", "bandwidth_gb_per_s") or top == "power":
            entry = more_fact(row)
        else:
            raise FactError(f"more.csv: {row['key']}: '{row['path']}' is no path known here")
        if path[0] == "gpu":
            path = ["units"] + path
        put(profile, path, entry)
