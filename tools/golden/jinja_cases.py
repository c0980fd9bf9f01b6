"""Writes tests/data/text/jinja_cases.json: snippets of Jinja and what Python's Jinja2, set up as transformers sets it
up for chat templates, makes of them. Needs jinja2 3.1.6.

    python tools/golden/jinja_cases.py
"""

import datetime
import json
import os
import sys

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

CLOCK = datetime.datetime(2026, 7, 1, 12, 30, 5)


class Generation(Extension):
    """{% generation %} marks the assistant's part for training; when rendering it is transparent."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: CLOCK.strftime(form)
    return env


VARIABLES = {
    "t": True,
    "f": False,
    "n": None,
    "i": 7,
    "neg": -3,
    "x": 2.5,
    "big": 1e20,
    "tiny": 1e-7,
    "s": "hello World",
    "e": "",
    "cn": "你好，世界",
    "html": "<a href=\"x\">&'</a>",
    "ml": "one\n  two\n\nthree",
    "l": [3, 1, 2],
    "el": [],
    "ls": ["b", "A", "c", "a"],
    "mix": [1, "1", 1.0, True, None, [1], {"k": 1}],
    "d": {"b": 1, "a": {"z": [1, 2], "y": None}, "items": [1, 2], "get": "mine"},
    "ed": {},
    "users": [
        {"name": "Ann", "age": 30, "city": "Oslo", "tags": ["x"]},
        {"name": "bob", "age": 25, "city": "Rome", "admin": True},
        {"name": "Cid", "age": 30, "city": "Oslo", "admin": False},
    ],
    "messages": [
        {"role": "system", "content": "sys"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1, "b": "ü\"\n"}}}]},
    ],
    "esc": "quote\" single' back\\ tab\t nl\n ctl\x01 del\x7f é \u2028 😀",
}

# fmt: off
EXPRESSIONS = r"""
t
f
n
i
x
big
tiny
1.0
1e16
1e15
123456789.123
0.1 + 0.2
1e-4
1e-5
1.5e300 * 1e10
-0.0
100000000000000000000
2**70
10**20
1_000
0x1f
0b101
0o17
1e3
'a'
"a\n'b'"
'\x41\u4f60\t\\'
'it''s'
'a' 'b'
[1, 2.0, 'x', none, true]
['it\'s', "a\"b", 'both\'"', 'nl\n', '\\', 'é', '\x01', '\u200b', '😀', '\xa0']
{'a': 1, 'b': [1, {'c': none}]}
{1: 2, none: 3, true: 4, 'x': 1.5}
(1, 2)
(1,)
()
{}
[]
[[]]
mix
d
esc
[esc]
ls
undefined_thing
[undefined_thing]
undefined_thing.attribute
undefined_thing['x']
d.nope
d.nope.deeper
d['nope']
d.a.z
d.a['z'][0]
d.items
d.get
d['items']
d.b
d.keys() | list
d.values() | list
d.a.get('z')
d.a.get('nope')
d.a.get('nope', 5)
d.a.items() | list
d.a.items()
d.a.keys()
d.a.values()
i + 1
i - 10
i * 2.5
i / 2
7 / 7
i // 2
neg // 2
i % 4
neg % 4
7.5 // 2
-7.5 // 2
-7.5 % 2
2 ** 3
2 ** -1
2 ** 3 ** 2
-2 ** 2
2 ** 0.5
4 ** 0.5
1 / 0
1 // 0
1 % 0
1.0 / 0
'a' + 'b'
'a' + 1
1 + 'a'
'a' ~ 1
'a' ~ none ~ true ~ 1.0 ~ [1, 'x']
'ab' * 3
3 * 'ab'
'ab' * -1
[1] * 2
[1] + [2]
[1] + 'a'
(1, 2) + (3,)
t + 1
t * 2
true + true
-t
+i
-i
--i
not i
not not i
not e
1 < 2
1 < 2 < 3
1 < 3 < 2
1 == 1.0
1 == true
'1' == 1
none == false
[1, 2] == [1.0, 2]
{'a': 1} == {'a': 1.0}
'a' < 'b'
'a' < 1
[1, 2] < [1, 3]
none < 1
1 != 2
1 >= 1
1 in l
9 in l
9 not in l
'ell' in s
'x' in d
'b' in d
'b' not in d
1 in 'a'
'a' in none
'a' in undefined_thing
'a' in ['a', 'b'] and 1
0 or 'x'
1 and 2
0 and 2
e or none
none or e
t and f or t
not t and f
'x' if t else 'y'
'x' if f
('x' if f) is defined
'x' if f else 'y' if f else 'z'
1 if t else 2 + 5
l[0]
l[-1]
l[5]
l[-5]
l['x']
l[1:]
l[:-1]
l[::-1]
l[::2]
l[-2:]
l[5:]
l[1:2]
s[0]
s[-1]
s[1:4]
s[::-1]
s[20]
s[20:]
cn[1]
cn[::-1]
cn | length
l[none:2]
l[0:3:2]
l[3:0:-1]
(1, 2, 3)[1:]
d[0]
d[none]
s.upper()
s.lower()
s.title()
s.capitalize()
s.swapcase()
s.strip('hd')
' a '.strip()
' a '.lstrip() ~ '|'
' a '.rstrip() ~ '|'
'xxaxx'.lstrip('x')
'xxaxx'.rstrip('x')
'\n\t a\u3000'.strip()
s.split()
s.split(' ')
s.split('l')
s.split('l', 1)
s.rsplit('l', 1)
s.rsplit('l')
' a  b '.split()
' a  b '.split(' ')
'a b c d'.split(none, 2)
'a b c d'.split(maxsplit=1)
'a b c d'.rsplit(none, 1)
''.split()
''.split(',')
'a,b'.split('')
'a\nb\r\nc'.splitlines()
'a\nb\r\nc'.splitlines(true)
s.startswith('he')
s.startswith(('x', 'he'))
s.startswith('lo', 3)
s.endswith('ld')
s.endswith('x')
s.replace('l', 'L')
s.replace('l', 'L', 1)
s.replace('', '-')
s.find('o')
s.find('o', 5)
s.find('zz')
s.rfind('o')
s.index('o')
s.index('zz')
s.count('l')
s.count('')
'abc'.isalpha()
'123'.isdigit()
'12a'.isalnum()
'½'.isnumeric()
'abc'.islower()
'ABC'.isupper()
' '.isspace()
'Abc Def'.istitle()
','.join(['a', 'b'])
','.join([1, 2])
'abc'.join('xyz')
'abc'.center(9, '*')
'abc'.ljust(5) ~ '|'
'abc'.rjust(5) ~ '|'
'42'.zfill(5)
'-42'.zfill(5)
'a-b-c'.partition('-')
'a-b-c'.rpartition('-')
'abc'.partition('x')
'abc'.removeprefix('a')
'abc'.removesuffix('c')
'a\tb'.expandtabs(4)
'{} {}'.format(1, 'x')
'{0} {1} {0}'.format(1, 'x')
'{a}'.format(a=5)
'%s is %d' % ('x', 5)
'%05.2f|%x|%5s|%-5s|%%' % (3.14159, 255, 'a', 'b')
'%s' % 5
'%r' % 'a'
'%(a)s' % {'a': 1}
'ß'.upper()
'ǆ'.title()
"they're bill's".title()
"they're bill's" | title
'ÀÉ'.lower()
'ΑΣ'.lower()
'İ'.lower()
'straße'.casefold()
s.nope()
s.nope
i.nope
l.append(1)
l.index(2)
l.count(1)
l.index(99)
l.copy()
l.pop()
d.update({'x': 1})
d.copy() | length
d.pop('b')
(5).bit_length()
x.is_integer()
s | upper
s | lower
s | title
s | capitalize
'hELLO wORLD-foo_bar (baz)' | title
'HELLO' | capitalize
s | length
s | count
l | length
d | length
5 | length
none | length
undefined_thing | length
s | reverse
l | reverse
l | reverse | list
l | sort
ls | sort
ls | sort(case_sensitive=true)
ls | sort(reverse=true)
mix | sort
users | sort(attribute='age') | map(attribute='name') | list
users | sort(attribute='age', reverse=true) | map(attribute='name') | list
users | sort(attribute='age,name') | map(attribute='name') | list
users | map(attribute='name') | join(', ')
users | map(attribute='nope') | list
users | map(attribute='nope', default='-') | list
users | map(attribute='tags.0') | list
users | map('length') | list
ls | map('upper') | list
ls | map('replace', 'a', 'x') | list
users | selectattr('admin') | map(attribute='name') | list
users | selectattr('admin', 'defined') | map(attribute='name') | list
users | selectattr('age', 'equalto', 30) | list | length
users | selectattr('age', '==', 30) | list | length
users | selectattr('age', 'gt', 26) | map(attribute='name') | list
users | selectattr('city', 'in', ['Oslo']) | map(attribute='name') | list
users | rejectattr('admin') | map(attribute='name') | list
users | rejectattr('admin', 'defined') | map(attribute='name') | list
l | select('odd') | list
l | select | list
l | reject('odd') | list
l | select('greaterthan', 1) | list
l | select('nope') | list
[0, 1, '', 'a', none] | select | list
users | groupby('city') | length
users | groupby('age')
users | groupby('city') | map('first') | list
users | groupby('nope', default='?') | list | length
l | first
el | first
l | last
el | last
s | first
s | last
l | join
l | join('-')
users | join('-', attribute='name')
mix | join('|')
l | sum
users | sum(attribute='age')
el | sum
[0.1, 0.2] | sum
['a'] | sum
l | min
l | max
ls | min
ls | max
ls | max(case_sensitive=true)
el | max
users | max(attribute='age')
l | unique | list
['a', 'A', 'b'] | unique | list
['a', 'A', 'b'] | unique(case_sensitive=true) | list
users | unique(attribute='age') | map(attribute='name') | list
range(7) | batch(3) | list
range(7) | batch(3, '-') | list
range(7) | slice(3) | list
range(7) | slice(3, '-') | list
range(5) | list
range(2, 8, 3) | list
range(5, 0, -2) | list
range(3)
range(0) | list
range(3)[1]
5 in range(10)
d | dictsort
d.a | dictsort
{'b': 1, 'A': 2, 'c': 0} | dictsort
{'b': 1, 'A': 2, 'c': 0} | dictsort(true)
{'b': 1, 'A': 2, 'c': 0} | dictsort(false, 'value')
{'b': 1, 'A': 2, 'c': 0} | dictsort(reverse=true)
d.a | items | list
undefined_thing | items | list
5 | items | list
undefined_thing | default('x')
undefined_thing | d('x')
none | default('x')
none | default('x', true)
e | default('x', true)
e | default('x')
e | default('x', boolean=true)
undefined_thing | default
d.nope | default('dd')
s | default(undefined_thing)
' a b ' | trim
'xxaxx' | trim('x')
5 | trim
none | trim
s | replace('l', 'L')
s | replace('l', 'L', 1)
5 | replace('5', '6')
ml | indent
ml | indent(2)
ml | indent(2, true)
ml | indent(2, first=true, blank=true)
ml | indent('>>')
ml | indent(width=1)
s | wordcount
cn | wordcount
'a-b c_d' | wordcount
'%s, %s' | format('a', 1)
'%(x)s' | format(x=3)
'5' | int
'5.7' | int
'x' | int
'x' | int(9)
'0x1f' | int(0, 16)
'ff' | int(0, 16)
5.9 | int
-5.9 | int
none | int
'12' | int + 1
'5.5' | float
'x' | float
'x' | float(1.5)
5 | float
5 | string
none | string
1.0 | string
l | string
s | string
s | list
d | list
5 | list
2.5 | round
3.5 | round
2.567 | round(2)
2.561 | round(2, 'ceil')
2.569 | round(2, 'floor')
5 | round
1234.5 | round(-2)
2.675 | round(2)
-5 | abs
-5.5 | abs
-1 | abs
html | escape
html | e
html | safe
html | escape | upper
'a' | escape ~ '<'
'<b>x</b> y' | striptags
html | forceescape
'a b&c/d' | urlencode
{'a': 'x y', 'b': 1} | urlencode
s | truncate(8)
s | truncate(8, true)
s | truncate(8, true, '..')
'foo bar baz qux' | truncate(9)
'foo bar baz qux' | truncate(11)
s | center(21)
1024 | filesizeformat
1000000 | filesizeformat
1048576 | filesizeformat(true)
d | attr('b')
s | attr('upper')
l | random | string | length
l | tojson
d | tojson
d | tojson(indent=2)
d | tojson(indent=4, sort_keys=true)
d | tojson(separators=(',', ':'))
d | tojson(separators=(', ', ': '))
mix | tojson
esc | tojson
esc | tojson(ensure_ascii=true)
cn | tojson
cn | tojson(ensure_ascii=true)
'😀' | tojson(ensure_ascii=true)
html | tojson
el | tojson(indent=2)
ed | tojson(indent=2)
[[], {}, [1]] | tojson(indent=2)
1.0 | tojson
1e20 | tojson
1e-7 | tojson
none | tojson
true | tojson
undefined_thing | tojson
{1: 2, true: 3, none: 4, 1.5: 5} | tojson
{'b': 1, 'a': 2} | tojson(sort_keys=true)
(1, 2) | tojson
d.a.items() | list | tojson
d | tojson(2)
d | tojson(indent='--')
messages[2].tool_calls[0].function.arguments | tojson
messages | selectattr('role', 'equalto', 'user') | list | tojson
t is true
1 is true
t is boolean
1 is boolean
1 is number
true is number
1.5 is float
1 is integer
true is integer
s is string
5 is string
l is sequence
s is sequence
d is sequence
5 is sequence
d is mapping
l is mapping
l is iterable
s is iterable
5 is iterable
d is iterable
none is none
n is none
undefined_thing is none
undefined_thing is defined
undefined_thing is undefined
d.nope is defined
d.b is defined
d.nope.x is defined
n is defined
s is callable
range is callable
5 is odd
5 is even
6 is divisibleby 3
6 is divisibleby(4)
5 is eq 5
5 is equalto(5)
5 is ne 4
5 is lt 6
5 is gt 6
5 is ge 5
5 is le 5
5 is greaterthan 3
5 is lessthan 3
2 is in l
2 is in(l)
2 is not in l
5 is not odd
not 5 is odd
l is sameas l
1 is sameas 1.0
none is sameas none
'abc' is lower
'ABC' is upper
html is escaped
html | escape is escaped
'upper' is filter
'odd' is test
'nope' is filter
5 is nope
s | nope
nope()
s()
undefined_thing()
d.nope()
-1 | abs + 1
1 + 2 | string
(1 + 2) | string ~ 'x'
1 ~ 2 + 3
1 + 2 ~ 3
2 * 3 ~ 4
'a' ~ 'b' * 2
not s is defined
s is defined and l
s | upper | lower
s | length > 5
s | length > 5 and l | length == 3
l | length is odd
dict(a=1, b=2)
dict(a=1) | tojson
dict([('a', 1)])
namespace(a=1).a
cycler('a', 'b').next()
joiner(', ')()
lipsum is defined
strftime_now('%Y-%m-%d')
strftime_now('%d %b %Y, %A %H:%M:%S %p %j %y %B %a %I %m %-d %% %e|%U %w')
raise_exception('no')
loop is defined
self is defined
caller is defined
varargs is defined
true
True
None
False
TRUE
none
i if i > 5
{'a': 1}.a
{'a': {'b': 2}}['a'].b
[1, 2, 3][1]
'abc'[1]
"abc".upper().lower()[0]
d.a.z[1]
d['a'].z | join('+')
users[0].name
users.0.name
users[0]['age'] + 1
users | length * 2
[users[0].name, users[1].name] | join(' & ')
messages[-1].role
messages[1:][0].content
messages[0]['role'] == 'system' and messages[0].content
(messages | first).role
(messages | last)['tool_calls'][0].function.name
messages | map(attribute='role') | list
messages | map(attribute='content') | select('string') | list
messages | rejectattr('role', 'in', ['system']) | map(attribute='role') | join
l | map('string') | join(',')
l | tojson | length
s.split(' ')[0] | upper
s.split(' ') | last
'a' in s.split('')
'%.2f' % 3
'%d%%' % 50
'%s' % (none,)
'%s %s' % ('a',)
'%d' % 'a'
'a' if undefined_thing else 'b'
'a' if undefined_thing is defined and undefined_thing.x else 'b'
undefined_thing == undefined_thing
undefined_thing == none
undefined_thing + 'a'
undefined_thing ~ 'a'
undefined_thing | string
undefined_thing | upper
undefined_thing | list
undefined_thing < 1
undefined_thing and 1
undefined_thing or 1
not undefined_thing
l[undefined_thing]
l.0
d.a.y
d.a.y.z
n.x
n['x']
x.real
i.real
1.5 | int | string ~ '!'
'a' < 'B'
'é' > 'z'
[3, 1] | sort | tojson
('b', 'a') | sort
{'a', 'b'}
1 if
{{
)
[1, 2
'abc
a b
1 +
l |
l | join(
s.
{'a': }
foo(a=1, 2)
t and
** 2
""".strip("\n").split("\n")

TEMPLATES = [
    "plain text",
    "",
    "trailing newline\n",
    "two newlines\n\n",
    "crlf\r\nline\r\n",
    "{# comment #}x",
    "a {#- c -#} b",
    "a\n{# c #}\nb",
    "{% raw %}{{ x }}{% endraw %}",
    "a {%- raw -%} {{ x }} {%- endraw -%} b",
    "{% if t %}yes{% endif %}",
    "{% if f %}yes{% elif i > 5 %}mid{% else %}no{% endif %}",
    "{% if undefined_thing %}yes{% else %}no{% endif %}",
    "a\n  {% if t %}\n  b\n  {% endif %}\nc",
    "a\n  {%+ if t %}\n  b\n  {%+ endif %}\nc",
    "a\n  {%- if t -%}\n  b\n  {%- endif -%}\nc",
    "a\n  {% if t +%}\n  b\n{% endif +%}\nc",
    "  {{ i }}  \n  {{- i -}}  \n x",
    "{{ i }}\n{{ i }}\n",
    "x {% set a = 1 %} y",
    "x\n{% set a = 1 %}\ny{{ a }}",
    "text {% if t %} inline {% endif %} tail\n",
    "text\t\t{% if t %}\nx{% endif %}",
    "  {# c #}  \n  x",
    "{{- 'a' }}",
    "{{ 'a' -}}   \n\n  b",
    "{%- for i in l -%} {{ i }} {%- endfor -%}",
    "{% for i in l %}{{ i }},{% endfor %}",
    "{% for i in l %}{{ i }}\n{% endfor %}",
    "{% for i in el %}x{% else %}empty{% endfor %}",
    "{% for i in undefined_thing %}x{% else %}empty{% endfor %}",
    "{% for i in none %}x{% endfor %}",
    "{% for i in 5 %}x{% endfor %}",
    "{% for c in s %}{{ c }}.{% endfor %}",
    "{% for k in d %}{{ k }} {% endfor %}",
    "{% for k, v in d.a.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d.a | items %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d %}{{ k }}{% endfor %}",
    "{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }} {% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}",
    "{% for i in l if i > 1 %}{{ i }}:{{ loop.index }}/{{ loop.length }} {% endfor %}",
    "{% for i in l if i > 9 %}x{% else %}none{% endfor %}",
    "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
    "{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}",
    "{% for i in l %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for i in [1, 1, 2] %}{{ loop.changed(i) }} {% endfor %}",
    "{% for i in l %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}",
    "{% for i in l %}{{ loop.nope }}{% endfor %}",
    "{% for i in l %}{{ loop }}{% endfor %}",
    "{% for i in l %}{% for j in l %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}",
    "{% for i in l %}{% set o = loop %}{% for j in 'ab' %}{{ o.index }}{{ j }}{% endfor %}{% endfor %}",
    "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in l %}{% set x = i %}{% endfor %}{{ x }}",
    "{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
    "{% set x = 1 %}{% if t %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% if f %}{% set zz = 2 %}{% endif %}{{ zz }}|",
    "{% set ns = namespace(c=0, d='x') %}{% for i in l %}{% set ns.c = ns.c + i %}{% endfor %}{{ ns.c }}{{ ns.d }}",
    "{% set ns = namespace() %}{% set ns.a = [] %}{{ ns.a }}{{ ns.b }}|{{ ns.b is defined }}",
    "{% set ns = namespace({'a': 1}) %}{{ ns.a }}",
    "{% set ns = namespace(a=1) %}{{ ns }}",
    "{% set ns = namespace(a=1) %}{{ ns['a'] }}",
    "{% set d.b = 5 %}{{ d.b }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a, b = [1, 2] %}{{ a }}{{ b }}",
    "{% set a = 1, 2 %}{{ a }}",
    "{% set a %}  block {{ i }}\n{% endset %}[{{ a }}]",
    "{% set a | upper | trim %}  block {{ i }}\n{% endset %}[{{ a }}]",
    "{% set ns = namespace() %}{% set ns.x %}blk{% endset %}{{ ns.x }}",
    "{% macro m(a, b=2, c='x') %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, c=3) }} {{ m() }}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
    "{% macro m(a) %}{{ a }}{{ varargs | length }}{% endmacro %}{{ m(1, 2, 3) }}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}inner{{ i }}{% endcall %}",
    "{% macro m() %}[{{ caller('q') }}]{% endmacro %}{% call(z) m() %}inner{{ z }}{% endcall %}",
    "{% macro m() %}{{ i }}{{ y }}{% endmacro %}{% set y = 5 %}{{ m() }}",
    "{% set y = 5 %}{% macro m() %}{{ y }}{% endmacro %}{{ m() }}",
    "{% macro fact(n) %}{% if n <= 1 %}1{% else %}{{ n * (fact(n - 1) | int) }}{% endif %}{% endmacro %}{{ fact(5) }}",
    "{% macro m() %}x{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m.caller }}",
    "{% macro m() %}  x\n{% endmacro %}[{{ m() | trim }}]{{ m() is string }}",
    "{% macro m() %}<{% endmacro %}{{ m() + 'x' }}{{ m() ~ '<' }}",
    "{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% macro m() %}x{% endmacro %}{{ m }}",
    "{% macro outer() %}{% macro inner() %}in{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}{{ inner }}",
    "{% filter upper %}abc{{ s }}{% endfilter %}",
    "{% filter replace('a', 'b') | upper %}aaa{% endfilter %}",
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}|",
    "{% with %}{% set q = 3 %}{{ q }}{% endwith %}{{ q }}|",
    "{% with a = 1, b = a %}{{ b }}|{% endwith %}",
    "{% generation %}gen{{ i }}{% endgeneration %}tail",
    "{% for m in messages %}{% generation %}{{ m.role }}{% endgeneration %}{% endfor %}",
    "{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}",
    "{% block b %}in block{{ i }}{% endblock %}",
    "{% set q = 1 %}{% block b %}{{ q }}|{% endblock %}",
    "{% do l.append(1) %}",
    "{% include 'x' %}",
    "{% extends 'x' %}",
    "{% import 'x' as y %}",
    "{% autoescape true %}{{ html }}{% endautoescape %}",
    "{% nope %}",
    "{% if %}{% endif %}",
    "{% if t %}",
    "{% endif %}",
    "{% for i in l %}",
    "{% for in l %}{% endfor %}",
    "{% set %}",
    "{% set 1 = 2 %}",
    "{{ }}",
    "{{ i",
    "{% i %}",
    "{# unclosed",
    "{% raw %}unclosed",
    "}}",
    "%} {{ '}}' }} {{ '%}' }}",
    "{{ '{{' }}{{ '{%' }}",
    "{{ {'a': {'b': 1}}['a']['b'] }}",
    "{{ {'a': {'b': 1}} }}",
    "{{'a'}}{{'b'}}",
    "{% for k, v in d.items() %}{{ k }}{% endfor %}",
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' }}{% if m.content is string %}{{ m.content }}{% endif %}{% endfor %}",
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}",
    "{%- for m in messages %}\n    {%- if m.role == 'user' %}\n        {{- 'U:' + m.content }}\n    {%- else %}\n        {{- m.role | upper }}\n    {%- endif %}\n{%- endfor %}\nend\n",
    "{% set m = messages[0] %}{% set c = m.content if m.content else '' %}{{ c }}",
    "{% set m = messages | selectattr('role', 'equalto', 'user') | list %}{{ m | length }}{{ m[0].content }}",
    "{% if messages[0]['role'] == 'system' %}{% set sys = messages[0]['content'] %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}{{ sys }}{{ rest | length }}",
    "{% for m in messages %}{% if loop.last and m.role != 'user' %}{{ raise_exception('last is ' + m.role) }}{% endif %}{% endfor %}",
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}alt{% endif %}{% endfor %}",
    "{% for m in messages[::-1] %}{{ m.role }}{% endfor %}",
    "{% for m in messages | reverse %}{{ m.role }}{% endfor %}",
    "{% for m in messages %}{% for tc in m.tool_calls %}{{ tc.function.name }}({{ tc.function.arguments | tojson }}){% endfor %}{% endfor %}",
    "{% for m in messages %}{% if m.tool_calls is defined and m.tool_calls %}{% set tc = m.tool_calls[0] %}{% if tc.function %}{% set tc = tc.function %}{% endif %}{{ tc.name }}{% for k, v in tc.arguments | items %}<{{ k }}>{{ v | tojson if v is mapping or (v is sequence and v is not string) else v | string }}</{{ k }}>{% endfor %}{% endif %}{% endfor %}",
    "{% for u in users | sort(attribute='name') %}{{ u.name }} {% endfor %}",
    "{% for g, us in users | groupby('city') %}{{ g }}:{{ us | map(attribute='name') | join(',') }};{% endfor %}",
    "{% for g in users | groupby('city') %}{{ g.grouper }}{{ g.list | length }}{% endfor %}",
    "{% for row in range(5) | batch(2) %}{{ row }}{% endfor %}",
    "{% set x = [] %}{% set x = x + [1] %}{{ x }}",
    "{% set x = {} %}{% set _ = x.update({'a': 1}) %}{{ x }}",
    "{% set x = [1, 2] %}{% set y = x.append(3) %}{{ x }}",
    "{% set d2 = dict(d.a, q=1) %}{{ d2 }}",
    "{% set a = 'x' %}{%- set b = a ~ 'y' -%}{{ b }}",
    "{{ caller }}|",
    "{{ loop }}|",
    "{% set loop = 3 %}{{ loop }}",
    "{% for i in l recursive %}{{ i }}{% if i > 1 %}{{ loop([i - 1]) }}{% endif %}{% endfor %}",
    "{% for i in [[1, [2, 3]], 4] recursive %}{% if i is iterable %}({{ loop(i) }}){% else %}{{ i }}@{{ loop.depth }}{% endif %}{% endfor %}",
    "{% for i in range(3) %}{% for j in range(3) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}",
    "{% break %}",
    "{{ i }}{% if i %}{{ i }}{% endif %}{# c #}{{ s }}",
    "é{{ cn }}€😀",
    "{{ s }}\n\n\n{{ s }}",
    "\n{{ i }}",
    "\n\n{% if t %}\n\nx\n\n{% endif %}\n\n",
    "{% if t %}\r\nx\r\n{% endif %}\r\ny",
    "a{% if t %}\tb{% endif %}",
    "{%if t%}x{%endif%}",
    "{%-if t-%} x {%-endif-%}",
    "{{i}}{{-i}}{{+i}}",
    "{{ i -}} {{- i }}",
    "{% set content = '<think>a</think>b' %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1].lstrip('\\n') %}{% endif %}{{ content }}",
    "{% set r = '' %}{% set c = '<think>\\nq\\n</think>\\n\\nans' %}{% set r = c.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}[{{ r }}]",
    "{% set dt = strftime_now('%d %b %Y') %}{{ dt }}",
    "{% if strftime_now is defined %}{{ strftime_now('%B') }}{% endif %}",
    "{% if not tools_x is defined %}{% set tools_x = none %}{% endif %}{{ tools_x }}",
    "{% if tools_x is not none %}set{% endif %}",
    "{% set ns = namespace(multi=true, last=messages|length - 1) %}{% for m in messages[::-1] %}{% set index = (messages|length - 1) - loop.index0 %}{% if ns.multi and m.role == 'user' and m.content is string and not(m.content.startswith('<x>') and m.content.endswith('</x>')) %}{% set ns.multi = false %}{% set ns.last = index %}{% endif %}{% endfor %}{{ ns.last }}",
    "{% macro render(x, pre='') %}{% if x is mapping %}{% for k, v in x.items() %}{{ pre }}{{ k }}:\n{{ render(v, pre + '  ') }}{% endfor %}{% elif x is sequence and x is not string %}{% for v in x %}{{ render(v, pre + '- ') }}{% endfor %}{% else %}{{ pre }}{{ x }}\n{% endif %}{% endmacro %}{{ render(d.a) }}",
    "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
    "{{ messages[0].content | trim + '!' }}",
    "{{ 'x' + messages[1]['content'] | trim + 'y' }}",
    "{{ (messages[0].content) | trim ~ i }}",
    "{{ '\\n' }}|{{ \"\\n\" }}|{{ '\\\\n' }}",
    "{{ 'a\nb' }}",
    "{%- set x -%}\n  a\n{%- endset -%}{{ x }}",
    "{{ [1,2,3,]  }}{{ {'a':1,} }}{{ (1,2,) }}",
    "{{ foo.bar is defined }}{{ foo is defined }}",
    "{{ d['a']['z'][-1] }}{{ d.a.z[::-1] }}",
    "{% for x in [1,2,3] %}{% if not loop.first %}, {% endif %}{{ x }}{% endfor %}",
    "{% for x in [1,2,3] -%}\n {{ x }}\n{%- if not loop.last %}, {% endif %}\n{% endfor %}",
    "{{ 'a' if t }}{{ 'b' if f }}|",
    "{{ cycler is defined }}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}",
    "{% set j = joiner('|') %}{{ j() }}a{{ j() }}b",
    "{{ x.__class__ }}|",
    "{{ s.__class__.__name__ }}",
    "{{ ''.__class__ }}",
    "{{ range(99999) | length }}",
    "{{ range(100001) | length }}",
    "{{ 1 if true else 2 }}{{ 1 if false else 2 }}",
    "{{ messages | tojson(indent=2) }}",
    "{{ users | tojson(indent=4) }}",
    "{{ {'name': 'f', 'parameters': d} | tojson }}",
    "{{ esc | string }}|{{ esc | length }}",
    "{{ [1.0, 2.50, 1e100, 1e-10, 1.1e16, 123456789012345678] }}",
    "{{ 1e22 }} {{ 1e21 }} {{ 123456.789e3 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }}",
    "{{ 3.0 * 2 }} {{ 7 // 2.0 }} {{ 2 ** 0.5 }} {{ 10 / 4 }} {{ 10 / 5 }}",
    "{{ 1e400 }} {{ -1e400 }}",
    "{{ 'line1\\\nline2' }}",
    "{{ \"\\x41\\101\" }}",
    "{{ '\\d\\w' }}",
    "{{ not_called() if f else 'ok' }}",
    "{{ (f and undefined_thing.x.y) }}",
    "{{ '%s' % l }}{{ '%s' % d.a }}",
    "{{ l ~ d.a ~ n ~ t ~ x }}",
    "{{ n }}{{ [n, t, f] }}",
    "{% if d %}d{% endif %}{% if ed %}ed{% endif %}{% if el %}el{% endif %}{% if e %}e{% endif %}{% if 0.0 %}0{% endif %}{% if '0' %}s0{% endif %}",
    "{% if n is none %}a{% endif %}{% if not n %}b{% endif %}{% if n == none %}c{% endif %}",
    "{% for k in d | dictsort %}{{ k[0] }}{% endfor %}",
    "{% for k, v in {'b': 1, 'a': 2} | dictsort %}{{ k }}{{ v }}{% endfor %}",
    "{% for p in {'a': 1}.items() %}{{ p }}{{ p[0] }}{% endfor %}",
    "{% for x in 'a,b,c'.split(',') %}{{ x }}{{ loop.nextitem is defined }}{% endfor %}",
    "{{ messages[5] }}|{{ messages[5] is defined }}",
    "{{ messages[5].x }}",
    "{{ messages[0].nope }}|{{ messages[0].nope is none }}|{{ not messages[0].nope }}",
    "{{ messages[0].get('nope') }}|{{ messages[0].get('role') }}",
    "{{ messages[0].items() | list }}",
    "{{ messages[0]['role']['x'] }}|",
    "{{ (1,2,3) }}{{ (1,) }}{{ ((1,2),[3]) }}",
    "{%- if t %}\nA\n{%- endif %}\nB\n{% if t -%}\n  C\n{% endif -%}\n  D",
    "    {%- if t %} A{% endif %}\n    {# comment #}\n    B",
    "  {% if t %}  {% if t %}x{% endif %}  {% endif %}  ",
    "{% set a = 1 -%}\n\n  b\n{%- set c = 2 %}\n\n  d",
    "{% set x = namespace(v=[]) %}{% for m in messages %}{% set x.v = x.v + [m.role] %}{% endfor %}{{ x.v | join('/') }}",
    "{{- bos_token }}{%- if t %}X{%- endif %}",
    "{{ 'a'.__len__ }}|",
    "{{ 'x' is string }}{{ 'x' is not string }}{{ not 'x' is string }}",
    "{{ s is string and s | length > 3 }}",
    "{{ 'abc' | map('upper') | join }}",
    "{{ d | map('upper') | list }}",
    "{{ d.a | list }}{{ d.a | first }}",
    "{{ '' | first }}|",
    "{{ l | sort | first }}{{ l | sort | last }}",
    "{% set l2 = l | sort %}{{ l }}{{ l2 }}",
    "{{ 'A' | lower in 'abc' }}",
    "{{ 1 in [1] and 2 not in [1] }}",
    "{{ [1, 2] | length == 2 and 'y' or 'n' }}",
    "{{ {'a': none}.a is none }}",
    "{{ {'x': 1}.get('y', {}).get('z') }}",
    "{% call undefined_macro() %}{% endcall %}",
    "{% macro m(x) %}{{ x | tojson }}{% endmacro %}{{ m({'a': [1, 2]}) }}{{ m(x='q') }}",
    "{% macro m(a=[]) %}{{ a }}{% endmacro %}{{ m() }}{{ m([1]) }}",
    "{% macro m(a, b) %}{{ b is defined }}{{ b }}{% endmacro %}{{ m(1) }}",
    "{% set f = range %}{{ f(2) | list }}",
    "{% set s %}[{{ s }}]{% endset %}{{ s }}",
    "{% set s = 'in' %}{% set s %}[{{ s }}]{% endset %}{{ s }}",
    "{% for q in [1, 2] %}{% set s %}[{{ s }}]{% endset %}{{ s }}{% endfor %}",
    "{% if t %}{% set s %}[{{ s }}]{% endset %}{{ s }}{% endif %}",
    "{{ i[1:] }}",
    "{{ d[1:] }}",
    "{{ n[::-1] }}",
    "{{ d.nope | int }}",
    "{{ t | indent }}",
    "{{ d.a | truncate(5) }}",
    "{{ f | map(attribute='x') | list }}",
    "{{ 0 | select | list }}",
    "{{ undefined_thing | attr('x') }}",
    "{{ 'abc' % undefined_thing }}",
    "{{ l is filter }}",
    "{{ ls | urlencode }}",
    "{{ [['a b', 1]] | urlencode }}",
    "{{ '%5.1f|%+d|%05d|%-6s|%e|%g|%g' % (2.25, 3, -42, 'ab', 12345.678, 0.0001, 1e20) }}",
    "{{ '{:>6}|{:<6}|{:^6}|{:06.2f}|{:,}|{:x}|{:%}|{:+d}'.format('a', 'b', 'c', 3.14159, 1234567, 255, 0.5, 3) }}",
    "{{ '{0[a]} {1.b} {name!r:>8}'.format({'a': 1}, {'b': 2}, name='q') }}",
    "{{ '{{}} {}'.format(1) }}",
    "{{ '{} {}'.format(1) }}",
    "{% set up = 'abc'.upper %}{{ up() }}",
    "{{ 'abc' | upper() }}",
    "{{ l | join(d='-') }}",
    "{{ 'a' | default(value='b') }}",
    "{{ 'abc' | replace(old='a', new='b') }}",
    "{{ 'abc' | replace('a') }}",
    "{{ l | first(1) }}",
    "{{ range() }}",
    "{{ range(1, 2, 0) }}",
    "{{ dict(**{'a': 1}) }}{{ range(*[1, 3]) | list }}",
]
# fmt: on


def main():
    env = environment()
    cases = []
    for source in ["{{ " + e + " }}" for e in EXPRESSIONS] + TEMPLATES:
        case = {"source": source}
        try:
            case["output"] = env.from_string(source).render(**VARIABLES)
        except Exception as error:  # noqa: BLE001 - whatever Python raises is the expectation
            case["error"] = f"{type(error).__name__}: {error}"[:200]
        # Addresses and random choices are no expectation.
        if " object at 0x" in case.get("output", "") or "built-in method" in case.get("output", ""):
            continue
        cases.append(case)
    out = {"made_with": "jinja2 3.1.6", "clock": CLOCK.isoformat(), "variables": VARIABLES, "cases": cases}
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    path = os.path.join(root, "tests", "data", "text", "jinja_cases.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(out, file, ensure_ascii=True, indent=1)
        file.write("\n")
    print(f"{len(cases)} cases, {sum('error' in c for c in cases)} of them errors", file=sys.stderr)


if __name__ == "__main__":
    main()
