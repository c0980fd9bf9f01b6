#!/usr/bin/env python3
"""Fit the efficiencies of devices/efficiency.json on published measurements.

Every quantity q of the formulas (speed_model.py) is a sum of effects, q = base + unit + family + framework + scheme + soc +
group, each drawn to zero, so that a chip not seen falls back to its family, then to its unit. Residuals are logarithms and
robust (Huber). No effect belongs to one row. Rows above the roofline are named and left out.

  fit.py [--rows FILE] [--out FILE] [--cv] [--check-rows FILE]

--cv prints cross-validated errors: one SoC left out, and one configuration left out inside a known SoC, unit and framework
(repeated rows leave together). How far effects may stray is chosen anew inside each fold of "one SoC left out", from that
fold's own rows. --check-rows writes some rows with their predictions, for the test that compares the C++ with this file.
Needs numpy.
"""
import argparse
import collections
import csv
import json
import math
import os

import numpy as np
from speed_model import CHIPS, CHUNK, FRAMEWORKS, TARGETS, USUAL_PEAK, key, load

HERE = os.path.dirname(os.path.abspath(__file__))
HALF_BAND = math.floor(math.log(2) / 2 * 1000) / 1000  # a band is no wider than 2x
STRAY = (0.5, 1.0, 1.5)  # candidates: all widths of effects times this

# Of Knapsack's own engine on a machine that was measured (docs/plan.md, "This machine").
ENGINE = dict(runtime_mib=12, band=0.15)


class Fit:
    def __init__(self, target, rows, stray=1.0):
        t = TARGETS[target]
        self.rows, self.f, self.huber = rows, t['f'], t['huber']
        self.columns, tau, start, self.use = {}, [], [], {}
        for q, (s, widths) in t['q'].items():
            self.columns[(q, '', '')] = len(tau)
            index = np.full((len(rows), 1 + len(widths)), -1)
            index[:, 0] = len(tau)
            tau.append(1.0)
            start.append(s)
            for e, (level, width) in enumerate(widths.items()):
                for i, r in enumerate(rows):
                    c = self.columns.setdefault((q, level, key(r, level)), len(tau))
                    if c == len(tau):
                        tau.append(width * stray)
                        start.append(0.0)
                    index[i, e + 1] = c
            self.use[q] = index
        self.start, self.prior = np.array(start), 1 / np.array(tau) ** 2
        cells = [t['data'](r) for r in rows]
        self.data = {k: np.array([float(c[k]) for c in cells]) for k in cells[0]}
        self.y = np.array([t['value'](r) for r in rows])
        self.same = [tuple(str(r[k]) for k in ('soc', 'unit', 'framework', 'params_b', 'weight_bits', 'decode_ctx',
                                               'prompt_tokens', 'kv_bits', 'scheme')) for r in rows]
        count = collections.Counter(self.same)
        self.w = np.array([1 / count[s] for s in self.same]) / 0.1 ** 2  # repeats share one row's weight

    def predict(self, theta, sel, jacobian=False):
        padded = np.append(theta, 0.0)
        data = {k: v[sel] for k, v in self.data.items()}
        q = {n: padded[i[sel]].sum(1) for n, i in self.use.items()}
        out = self.f(q, data)
        if not jacobian:
            return out
        J, at = np.zeros((len(sel), len(padded))), np.arange(len(sel))
        for n, index in self.use.items():
            slope = (self.f({**q, n: q[n] + 1e-5}, data) - out) / 1e-5
            for e in range(index.shape[1]):
                J[at, index[sel, e]] += slope
        return out, J[:, :-1]

    def cost(self, theta, sel):
        a = np.abs(self.predict(theta, sel) - self.y[sel])
        h = np.where(a < self.huber, a * a / 2, self.huber * (a - self.huber / 2))
        return (self.w[sel] * h).sum() + (self.prior * (theta - self.start) ** 2).sum() / 2

    def weights(self, residual, sel):
        return self.w[sel] * np.minimum(1, self.huber / np.maximum(np.abs(residual), 1e-9))

    def solve(self, sel, theta=None, steps=25):
        theta, damp = (self.start if theta is None else theta).copy(), 1e-3
        cost = self.cost(theta, sel)
        for _ in range(steps):
            p, J = self.predict(theta, sel, True)
            r = p - self.y[sel]
            W = self.weights(r, sel)
            A = J.T @ (J * W[:, None]) + np.diag(self.prior)
            b = J.T @ (W * r) + self.prior * (theta - self.start)
            for _ in range(8):
                tried = theta - np.linalg.solve(A + damp * np.diag(np.diag(A)), b)
                better = self.cost(tried, sel)
                if better < cost:
                    break
                damp *= 5
            else:
                return theta
            gain, theta, cost, damp = cost - better, tried, better, max(damp / 5, 1e-7)
            if gain < 1e-4 * max(1, cost):
                break
        return theta

    def zeroed(self, theta, socs):
        """Without what is known of these SoCs alone."""
        zero = [c for (_, level, k), c in self.columns.items() if level in ('soc', 'group') and k.split('/')[1] in socs]
        begin = theta.copy()
        begin[zero] = 0
        return begin

    def without_one(self, theta, sel):
        """Each configuration predicted without itself: one Newton step away from the full fit, by Woodbury."""
        out = np.full(len(self.rows), np.nan)
        p, J = self.predict(theta, sel, True)
        r = p - self.y[sel]
        W = self.weights(r, sel)
        inverse = np.linalg.inv(J.T @ (J * W[:, None]) + np.diag(self.prior))
        group = collections.Counter(key(self.rows[i], 'group') for i in sel)
        together = collections.defaultdict(list)
        for at, i in enumerate(sel):
            together[self.same[i]].append(at)
        for members in together.values():
            k = np.array(members)
            if group[key(self.rows[sel[k[0]]], 'group')] == len(k):
                continue  # nothing else is known of this group
            BJ = inverse @ J[k].T
            step = BJ @ np.linalg.solve(np.diag(1 / W[k]) - J[k] @ BJ, r[k])
            out[sel[k]] = self.predict(theta + step, sel[k])
        return out


def ready(rows, target):
    return [r for r in rows if r['fit_ok'] and all(r.get(k) for k in TARGETS[target]['need'])]


def error(p, y, sign):
    return np.exp(sign * (p - y)) - 1


def median(e):
    e = np.abs(e[np.isfinite(e)])
    return f'{100 * np.median(e):5.1f}' if len(e) else '    -'


def half_band(log_errors):
    e = np.abs(log_errors[np.isfinite(log_errors)])
    return round(float(min(HALF_BAND, max(0.08, np.quantile(e, 0.87)))), 3) if len(e) > 4 else round(HALF_BAND, 3)


def group_folds(socs, n):
    """SoCs in n folds of like many rows: the largest first, each into the emptiest fold."""
    folds = [[] for _ in range(n)]
    size = [0] * n
    for soc, count in sorted(collections.Counter(socs).items(), key=lambda kv: (-kv[1], kv[0])):
        at = size.index(min(size))
        folds[at].append(soc)
        size[at] += count
    return folds


def choose_stray(fits, sel, folds=4):
    """The width whose predictions of left-out SoCs are best on the rows `sel`."""
    best = None
    for stray, fit in fits.items():
        socs = np.array([fit.rows[i]['soc'] for i in sel])
        base = fit.solve(sel, fit.last, 6)
        left = []
        for fold in group_folds(socs, folds):
            out = np.isin(socs, fold)
            theta = fit.solve(sel[~out], fit.zeroed(base, fold), 4)
            left.append(fit.predict(theta, sel[out]) - fit.y[sel[out]])
        score = float(np.median(np.abs(np.concatenate(left))))
        if best is None or score < best[0]:
            best = (score, stray)
    return best[1]


def above_roofline(fit):
    """Faster than the memory can be: reported, not fitted."""
    return (fit.data['w'] + fit.data['kv']) / fit.data['bw'] > np.exp(fit.y)


def usual_frameworks(rows, level):
    """For each unit of a SoC, or of a family of them, the framework that most rows are of."""
    count = collections.defaultdict(collections.Counter)
    for r in rows:
        if r['fit_ok'] and r['decode_tok_s'] and r['bw']:
            count[key(r, level)][r['framework']] += 1
    return {k: min(c, key=lambda f: (-c[f], f)) for k, c in sorted(count.items())}


def most_bits(rows):
    """For each unit and framework the most bits a weight that it was measured with."""
    most = {}
    for r in rows:
        if r['fit_ok'] and r['decode_tok_s'] and r['weight_bits']:
            k = r['unit'] + '/' + r['framework']
            most[k] = max(most.get(k, 0), r['weight_bits'])
    return dict(sorted(most.items()))


def report(fit, sign, inside, one, left):
    table = collections.defaultdict(list)
    for i, r in enumerate(fit.rows):
        for k in (r['unit'], r['unit'] + '/' + r['framework'], key(r, 'group')):
            table[k].append(i)
    for k, v in sorted(table.items()):
        e = [error(x[v], 0, sign) for x in (inside, one, left)]
        print(f'  {k:52s} {len(v):4d}  {median(e[0])} {median(e[1])} {median(e[2])}  bias {100 * np.median(e[2]):6.1f}')


def fit_target(target, rows, cv):
    t = TARGETS[target]
    mine = ready(rows, target)
    if target == 'decode':
        above = above_roofline(Fit(target, mine))
        print('above the roofline:', [r['id'] for r, a in zip(mine, above) if a])
        mine = [r for r, a in zip(mine, above) if not a]
    fits = {s: Fit(target, mine, s) for s in STRAY}
    n = len(mine)
    sel = np.arange(n)
    for each in fits.values():
        each.last = each.solve(sel)
    stray = choose_stray(fits, sel)
    fit = fits[stray]
    theta = fit.last
    inside = fit.predict(theta, sel) - fit.y
    one = fit.without_one(theta, sel) - fit.y
    known = one[np.isfinite(one)]
    units = np.array([r['unit'] for r in fit.rows])
    out = dict(quantities={}, band={u: half_band(one[units == u]) for u in sorted(set(units))},
               band_unseen=round(HALF_BAND, 3), groups=sorted({key(r, 'group') for r in fit.rows}))
    for (q, level, k), c in fit.columns.items():
        node = out['quantities'].setdefault(q, dict(base=0.0, **{lv: {} for lv in t['q'][q][1]}))
        if not level:
            node['base'] = round(float(theta[c]), 4)
        elif abs(theta[c]) >= 0.0005:
            node[level][k] = round(float(theta[c]), 4)
    print(f"{target}: {n} rows, effects x{stray}; in sample {median(error(inside, 0, t['sign']))} %, one configuration left out "
          f"{median(error(one, 0, t['sign']))} % ({len(known)} rows), within a 2x band {100 * np.mean(np.abs(known) <= HALF_BAND):.0f} %")
    if cv:
        left, chosen = np.zeros(n), collections.Counter()
        for soc in sorted({r['soc'] for r in fit.rows}):
            out = np.array([r['soc'] == soc for r in fit.rows])
            inner = choose_stray(fits, sel[~out])
            chosen[inner] += 1
            fold = fits[inner]
            left[out] = fold.predict(fold.solve(sel[~out], fold.zeroed(fold.last, [soc]), 8), sel[out]) - fold.y[sel[out]]
        print(f"  one SoC left out {median(error(left, 0, t['sign']))} %, within a 2x band "
              f'{100 * np.mean(np.abs(left) <= HALF_BAND):.0f} %; effects chosen in the folds: {dict(chosen)}')
        report(fit, t['sign'], inside, one, left)
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--rows', default=os.path.join(HERE, 'measured.csv'))
    ap.add_argument('--root', default=os.path.join(HERE, '..', '..'), help='of the repository: devices/ and models/')
    ap.add_argument('--out')
    ap.add_argument('--cv', action='store_true')
    ap.add_argument('--target', choices=sorted(TARGETS))
    a = ap.parse_args()
    rows = load(a.rows, a.root)
    result = dict(frameworks=FRAMEWORKS, chips=CHIPS, usual_peak=USUAL_PEAK, chunk=CHUNK, most_bits=most_bits(rows), engine=ENGINE,
                  usual_framework=usual_frameworks(rows, 'soc'), usual_framework_of_family=usual_frameworks(rows, 'family'),
                  targets={})
    for target in TARGETS:
        if a.target in (None, target):
            result['targets'][target] = fit_target(target, rows, a.cv)
    if a.out:
        with open(a.out, 'w', encoding='utf-8') as f:
            json.dump(result, f, indent=1, sort_keys=True)
            f.write('\n')


if __name__ == '__main__':
    main()
