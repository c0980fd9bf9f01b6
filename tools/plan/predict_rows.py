#!/usr/bin/env python3
"""Predictions of published rows by speed_model.py, as CSV: id, seconds a token, seconds of the prompt, MiB.

  predict_rows.py [--rows FILE] [--efficiency FILE] > tests/data/plan/predictions.csv

tests/plan/speed_model_test.cc holds the C++ against them. Needs numpy.
"""
import argparse
import json
import os

from speed_model import load, predict

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, '..', '..')


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--rows', default=os.path.join(HERE, 'measured.csv'))
    ap.add_argument('--efficiency', default=os.path.join(ROOT, 'devices', 'efficiency.json'))
    a = ap.parse_args()
    with open(a.efficiency, encoding='utf-8') as f:
        efficiency = json.load(f)
    print('id,decode_s,prefill_s,memory_mib')
    for row in load(a.rows, ROOT):
        cells = [predict(efficiency, t, row) for t in ('decode', 'prefill', 'memory')]
        print(','.join([row['id']] + ['' if c is None else f'{c:.9g}' for c in cells]))


if __name__ == '__main__':
    main()
