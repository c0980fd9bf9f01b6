"""The speed and memory model of docs/plan.md: what a published row is turned into, and three formulas.

src/plan/speed_model.cc computes the same (tests/plan/speed_model_test.cc compares both on rows). What is not a formula is data
in devices/efficiency.json: class names of frameworks, usual peaks, effects.
"""
import csv
import glob
import json
import math
import os
import re

import numpy as np

# Framework names as published -> one class; the first that is contained wins.
FRAMEWORKS = [('genie', 'genie'), ('rkllm', 'rkllm'), ('rocknpu', 'rocknpu'), ('cactus', 'llama.cpp'),
              ('t-mac table', 'llama.cpp'), ('ollama', 'llama.cpp'), ('openvino', 'openvino'),
              ('ik_llama', 'ik_llama.cpp'), ('llama.cpp', 'llama.cpp'), ('mlx', 'mlx'), ('core ai', 'core-ai'),
              ('core-ai', 'core-ai'), ('litert', 'litert-lm'), ('coreml', 'coreml-llm'), ('mnn', 'mnn'),
              ('executorch', 'executorch'), ('fastflow', 'fastflowlm'), ('calm', 'calm'), ('t-mac', 't-mac'),
              ('mlc', 'mlc-llm'), ('vllm', 'vllm'), ('ipex', 'ipex-llm'), ('hailo', 'hailo'), ('ax-llm', 'ax-llm'),
              ('tensorrt', 'tensorrt'), ('mllm', 'mllm'), ('t-man', 't-man')]
# Profiles that are one chip under several names or clocks: they leave together in the cross-validation.
CHIPS = {'core-ultra-lunar-lake': 'lunar-lake', 'core-ultra-7-258v': 'lunar-lake', 'core-ultra-5-125h': 'meteor-lake',
         'core-ultra-9-185h': 'meteor-lake', 'cix-p1': 'cix', 'cix-cp8180': 'cix', 'jetson-orin-nano-8gb': 'orin-nano',
         'jetson-orin-nano-8gb-super': 'orin-nano'}
# Tera-operations a second for each GB/s, of a unit whose peak is not known; from the units whose peak is.
USUAL_PEAK = {'cpu': 0.012, 'gpu': 0.033, 'npu': 0.45}
# Tokens of a prompt that go through the model at a time.
CHUNK = {'npu': 128, 'gpu': 512, 'cpu': 512}
NUMBERS = ('params_b', 'read_params_b', 'active_params_b', 'weight_bits', 'kv_bits', 'prompt_tokens', 'decode_ctx',
           'ttft_ms', 'prefill_tok_s', 'decode_tok_s', 'memory_mb', 'weight_file_gb')
SHAPE = re.compile(r'L=(\d+) d=(\d+) ff=\d+ h=(\d+) kv=(\d+) hd=(\d+) V=(\d+) (un)?tied')
NAMED = re.compile(r'language part = (\S+?)(;|$)|^(\S+) architecture')
ACTIVATIONS = re.compile(r'w\d+a(8|16)|(8|16)a\d+w|A(8)W')


def number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def names_of(files, inside):
    out = {}
    for path in sorted(glob.glob(files)):
        with open(path, encoding='utf-8') as f:
            value = json.load(f)
        names = inside(value)
        if names:
            for name in [os.path.basename(path)[:-5]] + names:
                out[name.lower()] = value
    return out


def read_devices(root):
    return names_of(os.path.join(root, 'devices', '*.json'),
                    lambda d: [d['id'], d['name'], *d.get('aliases', [])] if 'id' in d else None)


def read_models(root):
    return names_of(os.path.join(root, 'models', '*.json'),
                    lambda m: [m['knapsack']['name'], *m['knapsack'].get('aliases', [])] if 'knapsack' in m else None)


def usual_shape(n):
    """Layers, hidden, heads x head size, vocabulary, tied, KV elements a token of a usual model of n billion parameters."""
    d = 2048 * (n / 1.5) ** 0.4
    return (float(round(28 * (n / 3) ** 0.2)), d, d, 100000.0, n < 4, 50000 * (n / 3) ** 0.3)


def config_shape(c):
    heads, hidden = c['num_attention_heads'], c['hidden_size']
    size = c.get('head_dim') or hidden // heads
    latent = c.get('kv_lora_rank')
    if latent:
        size = (c['qk_nope_head_dim'] + c['qk_rope_head_dim'] + c['v_head_dim']) / 2
    kv = latent + c['qk_rope_head_dim'] if latent else 2 * c.get('num_key_value_heads', heads) * size
    layers = c['num_hidden_layers']
    return (float(layers), float(hidden), float(heads * size), float(c['vocab_size']),
            bool(c.get('tie_word_embeddings', False)), float(layers * kv))


def shape_of(row, models, params):
    m = SHAPE.search(row['arch_notes'])
    if m:
        layers, hidden, heads, kv, size, vocab = (float(x) for x in m.groups()[:6])
        return (layers, hidden, heads * size, vocab, not m[7], 2 * kv * size * layers)
    m = NAMED.search(row['arch_notes'])
    name = (m[1] or m[3]) if m else row['model']
    model = models.get(name.lower()) or models.get(row['model'].lower())
    return config_shape(model) if model else usual_shape(params or 1.0)


def peak_of(unit, device, bw):
    """The peak that a unit can feed: an NPU with little bandwidth for its peak reaches less of it."""
    peaks = device.get('units', {}).get(unit, {}).get('peak_tops', {})
    cell = {'gpu': peaks.get('fp32'), 'npu': peaks.get('int8') or peaks.get('unstated')}.get(unit)
    usual = USUAL_PEAK[unit] * bw if bw and unit in USUAL_PEAK else None
    if not cell or not usual:
        return cell['value'] if cell else usual
    return math.sqrt(cell['value'] * usual) if unit == 'npu' else cell['value']


def device_names(row):
    """What a row's chip may be called: as it is written, without what stands in brackets, then its device."""
    names = []
    for name in (row['soc'].lower(), row['device'].lower()):
        names.append(name)
        if ' (' in name and 'not stated' not in name:
            names.append(name[:name.index(' (')])
    return [n for n in names if n]


def load(csv_file, root):
    devices, models, rows = read_devices(root), read_models(root), []
    with open(csv_file, newline='', encoding='utf-8') as f:
        for r in csv.DictReader(f):
            x = {k: number(r[k]) for k in NUMBERS}
            name = (r['soc'] or r['device']).lower()
            device = next((devices[n] for n in device_names(r) if n in devices), {})
            chip = device.get('id', name)
            framework = r['framework'].lower()
            activations = ACTIVATIONS.search(r['quant_label'])
            x.update(id=r['id'], unit=r['backend'], fit_ok=r['fit_ok'] == '1' and 'early' not in r['note'], family=device.get('family', 'unknown'),
                     soc=CHIPS.get(chip, chip),
                     framework=next((c for text, c in FRAMEWORKS if text in framework), framework),
                     bw=device.get('memory', {}).get('bandwidth_gb_per_s', {}).get('theoretical', {}).get('value'))
            x['scheme'] = x['framework'] + '/' + (
                'a' + next(g for g in activations.groups() if g) if activations else 'float')
            x['kv_bits'] = x['kv_bits'] or 16.0
            x['read_params_b'] = x['read_params_b'] or x['active_params_b'] or x['params_b']
            if 'short-chat' in r['note'] and not x['prompt_tokens']:
                x['prompt_tokens'] = 20.0  # the note says so
            x['peak'] = peak_of(x['unit'], device, x['bw'])
            x.update(zip(('layers', 'hidden', 'attention', 'vocab', 'tied', 'kv'),
                         shape_of(r, models, x['params_b'])))
            p = x['prompt_tokens'] or 512.0
            x['time_s'] = (x['ttft_ms'] / 1e3 if x['ttft_ms'] and x['prompt_tokens'] else
                           p / x['prefill_tok_s'] if x['prefill_tok_s'] else None)
            rows.append(x)
    return rows


def key(row, level):
    if level == 'group':
        return '/'.join((row['unit'], row['soc'], row['framework']))
    return row['unit'] if level == 'unit' else row['unit'] + '/' + row[level]


# ---- the three formulas: each gives the logarithm of seconds or MiB; q are sums of effects ----

def decode_data(r):
    return dict(w=r['read_params_b'] * r['weight_bits'] / 8, bw=r['bw'], n=r['read_params_b'], layers=r['layers'],
                kv=r['kv'] * r['kv_bits'] / 8 * (r['decode_ctx'] or 128) / 1e9)


def decode(q, d):
    """seconds a token: bytes over the sustained bandwidth, a cost per layer, a cost per weight (cores)"""
    e = 1 / (1 + np.exp(-q['e']))
    return np.log((d['w'] + d['kv'] * np.exp(q['kv'])) / (d['bw'] * e) + 1e-3 * d['layers'] * np.exp(q['layer'])
                  + 1e-3 * d['n'] * np.exp(q['weight']))


def prefill_data(r):
    p = r['prompt_tokens'] or 512.0
    n = r['active_params_b'] or r['read_params_b']
    body = max(n - r['vocab'] * r['hidden'] / 1e9, 0.3 * n)  # the head runs for the last token only
    chunks = math.ceil(p / CHUNK.get(r['unit'], CHUNK['cpu']))  # each reads the weights and starts every layer anew
    return dict(flops=2 * body * p / 1e3, attn=2.0 * r['layers'] * r['attention'] * p * p / 1e12, peak=r['peak'],
                floor=chunks * r['read_params_b'] * r['weight_bits'] / 8 / (0.8 * r['bw']), layers=chunks * r['layers'])


def prefill(q, d):
    """seconds of a prompt: work over the reached part of the peak, weights read once, a cost per layer"""
    return np.log((d['flops'] + d['attn'] * np.exp(q['attn'])) / (d['peak'] * np.exp(q['u'])) + d['floor']
                  + 1e-3 * d['layers'] * np.exp(q['layer']))


def memory_data(r):
    tokens = r['decode_ctx'] or r['prompt_tokens'] or 128
    return dict(w=r['weight_file_gb'] or r['params_b'] * r['weight_bits'] / 8,
                table=r['vocab'] * r['hidden'] / 1e9 * bool(r['tied']), kv=r['kv'] * r['kv_bits'] / 8 * tokens / 1e9,
                logits=(r['prompt_tokens'] or 20.0) * r['vocab'] / 1e9)


def memory(q, d):
    """MiB: the resident part of the weights, a second table of a tied model, KV, logits, the runtime"""
    gb = d['w'] * np.exp(q['w']) + d['table'] * np.exp(q['table']) + d['kv'] + d['logits'] * np.exp(q['logits'])
    return np.log(gb * 1e9 / 2**20 + np.exp(q['base']))


# quantity: its start, then how far each level's effects may stray
TARGETS = {
    'decode': dict(
        f=decode, data=decode_data, huber=0.15, sign=-1,
        need=('decode_tok_s', 'bw', 'weight_bits', 'read_params_b'), value=lambda r: -math.log(r['decode_tok_s']),
        q={'e': (0.8, dict(unit=.3, family=.4, framework=.4, scheme=.3, soc=.5, group=.4)),
           'layer': (-2.0, dict(unit=.7, framework=.7, group=.5)),
           'kv': (0.0, dict(unit=.5, framework=.5, group=.5)),
           'weight': (-0.5, dict(unit=1., framework=.7, group=.4))}),
    'prefill': dict(
        f=prefill, data=prefill_data, huber=0.2, sign=1,
        need=('bw', 'peak', 'weight_bits', 'read_params_b', 'time_s'), value=lambda r: math.log(r['time_s']),
        q={'u': (-1.5, dict(unit=.7, family=.6, framework=.6, scheme=.5, soc=.6, group=.5)),
           'attn': (0.0, dict(unit=.2, framework=.2)),  # few rows have long prompts: near the other products' efficiency
           'layer': (0.0, dict(unit=1., framework=1.2, group=.6))}),
    'memory': dict(
        f=memory, data=memory_data, huber=0.15, sign=1, need=('memory_mb', 'weight_bits', 'params_b'),
        value=lambda r: math.log(r['memory_mb']),
        q={'w': (0.0, dict(unit=.3, framework=.4, group=.1)),
           'table': (-1.5, dict(framework=1.5)),
           'logits': (-2.5, dict(framework=2.)),
           'base': (5.0, dict(unit=.5, framework=.7, group=.5))}),
}


# ---- predictions with fitted effects ----

def effects(efficiency, target, row):
    out = {}
    for q, node in efficiency['targets'][target]['quantities'].items():
        out[q] = node['base'] + sum(v.get(key(row, level), 0.0) for level, v in node.items() if level != 'base')
    return out


def predict(efficiency, target, row):
    """Seconds or MiB; None where the row or its device lacks an input."""
    t = TARGETS[target]
    needs = [k for k in t['need'] if k not in ('decode_tok_s', 'time_s', 'memory_mb')]
    if target == 'memory' and row['weight_file_gb']:
        needs = []
    if not all(row.get(k) for k in needs):
        return None
    return float(np.exp(t['f'](effects(efficiency, target, row), t['data'](row))))
