"""Renders generated templates with Jinja's sandbox and with our engine, and says where they differ.

compare.py <render_worker> [templates] [seed]: the templates are the same for the same seed. They use what both engines have: expressions, `if`,
`for`, `set`, `with`, our fifteen filters and seven tests. Of the filters, Jinja has no `date` and no `slugify`, its `reverse` makes an iterator,
and its `tojson` escapes for HTML and `join` writes Python's words; here they are defined as our documentation says.
"""

import datetime
import json
import random
import subprocess
import sys
import zoneinfo

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

FILTERS = "join length default upper lower truncate tojson date replace trim slugify first last sort reverse".split()
TESTS = "defined none number string mapping sequence boolean".split()


def as_json(value):
    return json.dumps(value, ensure_ascii=False)


def finalize(value):
    if isinstance(value, (str, jinja2.Undefined)):
        return value
    return "" if value is None else as_json(value)


def date(value, format="%Y-%m-%d", tz="UTC"):
    if isinstance(value, int):
        at = datetime.datetime.fromtimestamp(value, datetime.timezone.utc)
    else:
        at = datetime.datetime.fromisoformat(value)
    at = at if at.tzinfo else at.replace(tzinfo=datetime.timezone.utc)
    return at.astimezone(zoneinfo.ZoneInfo(tz)).strftime(format)


def slugify(value):
    return "-".join("".join(one if one.isalnum() else " " for one in str(finalize(value)).lower()).split())


def join(value, d=""):
    return d.join(str(finalize(item)) for item in value)


def reverse(value):
    return value[::-1] if isinstance(value, str) else list(value)[::-1]


def jinja():
    environment = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined, finalize=finalize)
    environment.globals.clear()
    ours = {"date": date, "slugify": slugify, "join": join, "reverse": reverse, "tojson": as_json}
    environment.filters = {name: ours.get(name, environment.filters.get(name)) for name in FILTERS}
    environment.tests = {name: environment.tests[name] for name in TESTS}
    return environment


WORDS = ["alpha", "Beta", "gamma delta", "", " padded ", "Größe", "naïve café", "ε→δ", "a,b;c", "<b>&amp;</b>", 'say "hi"', "it's", "line\nbreak", "x" * 40,
         "the quick brown fox jumps over the lazy dog"]
TIMES = ["2026-05-26T09:00:00Z", "2026-03-08T06:59:59+00:00", "2026-12-31T23:30:00-05:00", "2024-02-29T12:00:00.250000Z", "2026-10-25T00:59:00Z"]
ZONES = ["UTC", "Africa/Kigali", "America/New_York", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe"]
# What both must refuse.
BROKEN = ["{{ inputs.missing }}", "{{ inputs.missing.more }}", "{{ inputs.word + 1 }}", "{{ inputs.none.x }}", "{{ inputs.count | length }}", "{{ 1 / 0 }}",
          "{{ inputs.empty | first }}", "{{ inputs.word.nothing }}", "{{ inputs.tags[99] }}", "{{ inputs.missing > 1 }}", "{% if inputs.missing %}{% endif %}",
          "{% for x in inputs.missing %}{% endfor %}", "{{ inputs.count.real() }}", "{{ inputs.word.__class__ }}", "{{ range(3) }}", "{{ [1, 'a'] | sort }}",
          "{{ nothing }}", "{{ inputs.missing | upper }}", "{{ inputs.count | join }}", "{% include 'x' %}", "{{ inputs.word | safe }}"]
FORMS = ["%Y-%m-%d", "%H:%M:%S", "%d %B %Y", "%a %b %d", "%j", "%Y-%m-%dT%H:%M", "%I:%M %p", "%y%m%d", "week %V", "100%%"]


class Templates:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.bound = []

    def one_of(self, options):
        return self.random.choice(options)

    def context(self):
        r = self.random
        people = [{"name": self.one_of(WORDS) or "n", "age": r.randint(0, 90), "ok": r.random() < 0.5} for _ in range(r.randint(0, 4))]
        inputs = {
            "word": self.one_of(WORDS), "other": self.one_of(WORDS), "count": r.randint(-20, 40), "share": r.randint(-40, 40) / 4, "yes": r.random() < 0.5,
            "none": None, "tags": [self.one_of(WORDS) for _ in range(r.randint(1, 5))], "empty": [], "numbers": [r.randint(-9, 9) for _ in range(r.randint(1, 6))],
            "people": people, "map": {"z": 1, "a": [1, "two", None, True], "m": {"k": self.one_of(WORDS)}}, "at": self.one_of(TIMES),
            "large": 2**53 + r.randint(0, 99),
        }
        return {"inputs": inputs, "run": {"id": "run_1", "attempt": r.randint(1, 3)}, "summary": {"bullets": [self.one_of(WORDS) for _ in range(3)]}}

    def literal(self, text):
        return json.dumps(text, ensure_ascii=False).replace("\\n", "\\n")

    def number(self, depth):
        simple = ["inputs.count", "inputs.share", "inputs.large", "run.attempt", str(self.random.randint(0, 12)), "inputs['count']", "inputs.map.z"]
        if depth <= 0:
            return self.one_of(simple)
        a, b = self.number(depth - 1), self.number(depth - 1)
        return self.one_of([
            self.one_of(simple), f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"{a} // 3", f"({a}) % 7", f"{a} / 4", f"(2 ** {self.random.randint(0, 8)})",
            f"-{self.one_of(simple)}", f"({self.text(depth - 1)} | length)", f"({self.list(depth - 1)} | length)", f"(inputs.numbers | sort | first)",
            f"(inputs.numbers | last)", f"({a} if {self.truth(depth - 1)} else {b})", f"(inputs.missing | default({b}))",
        ])

    def text(self, depth):
        simple = ["inputs.word", "inputs.other", "run.id", self.literal(self.one_of(WORDS)), "inputs.tags[0]", "summary.bullets[1]", "inputs.map.m.k"]
        if depth <= 0:
            return self.one_of(simple)
        a, b = self.text(depth - 1), self.text(depth - 1)
        return self.one_of([
            self.one_of(simple), f"({a} ~ {b})", f"({a} + {b})", f"({a} ~ inputs.count)", f"({a} ~ inputs.yes ~ inputs.none)", f"({a} | upper)", f"({a} | lower)", f"({a} | trim)",
            f"({a} | trim('x '))", f"({a} | truncate({self.random.randint(3, 20)}))", f"({a} | truncate(12, true, '..'))", f"({a} | truncate(9, killwords=false, end='', leeway=0))",
            f"({a} | replace({b}, '-'))", f"({a} | replace('a', {b}, 2))", f"({a} | slugify)", f"({a} | reverse)", f"({a} | tojson)", f"({self.list(depth - 1)} | join({self.literal(self.one_of([', ', '', ' | ']))}))",
            f"({a} if {self.truth(depth - 1)} else {b})", f"(inputs.missing | default({b}))", f"({a} | default({b}, true))", f"({a})[{self.random.randint(0, 3)}:]", f"({a})[:-1]", f"({a})[::2]",
            f"(inputs.at | date('{self.one_of(FORMS)}', '{self.one_of(ZONES)}'))", f"(inputs.at | date)", f"({a} * {self.random.randint(0, 3)})", f"({self.list(depth - 1)} | tojson)",
            f"(inputs.people | tojson)", f"(inputs.tags | first)", f"(inputs.tags | sort | last)",
        ])

    def list(self, depth):
        simple = ["inputs.tags", "inputs.numbers", "summary.bullets", "inputs.empty", "[1, 2.5, 'three', true, none]", "inputs.map.a"]
        if depth <= 0:
            return self.one_of(simple)
        a = self.list(depth - 1)
        return self.one_of([
            self.one_of(simple), f"({a} | reverse)", f"(inputs.tags | sort)", f"(inputs.tags | sort(reverse=true))", f"(inputs.tags | sort(case_sensitive=true))", f"(inputs.numbers | sort(true))",
            f"[{self.text(depth - 1)}, {self.number(depth - 1)}]", f"({a})[1:]", f"({a})[:2]", f"(inputs.people | sort(attribute='age'))", f"(inputs.map | sort)",
            f"[{self.truth(depth - 1)}, {{'k': {self.text(depth - 1)}}}]",
        ])

    def truth(self, depth):
        simple = ["inputs.yes", "true", "false", "inputs.count > 3", "inputs.word == inputs.other", "inputs.missing is defined", "inputs.none is none", "inputs.count is number",
                  "inputs.word is string", "inputs.map is mapping", "inputs.tags is sequence", "inputs.yes is boolean", "inputs.word is sequence", "inputs.map is sequence", "inputs.share is not string",
                  "'alpha' in inputs.tags", "3 not in inputs.numbers", "'z' in inputs.map", "'a' in inputs.word", "inputs.yes is number"]
        if depth <= 0:
            return self.one_of(simple)
        a, b = self.truth(depth - 1), self.truth(depth - 1)
        return self.one_of([
            self.one_of(simple), f"({a} and {b})", f"({a} or {b})", f"not {a}", f"({self.number(depth - 1)} >= {self.number(depth - 1)})", f"({self.text(depth - 1)} != {self.text(depth - 1)})",
            f"(0 < inputs.count <= 20)", f"({self.text(depth - 1)} < {self.text(depth - 1)})", f"({self.list(depth - 1)} == {self.list(depth - 1)})",
        ])

    def expression(self, depth):
        return self.one_of([self.number, self.text, self.text, self.list, self.truth])(depth)

    def body(self, depth):
        parts = [self.one_of(["", "Hello ", "• ", "\n", "  indented\n", "a & b <c> ", "100% "]) for _ in range(2)]
        for _ in range(self.random.randint(1, 3)):
            parts.insert(self.random.randint(0, len(parts)), self.part(depth))
        return "".join(parts)

    def part(self, depth):
        open_, close = self.one_of([("{{ ", " }}"), ("{{", "}}"), ("{{- ", " }}"), ("{{ ", " -}}")])
        plain = f"{open_}{self.expression(min(depth, 2))}{close}"
        if depth <= 0:
            return plain
        inner = lambda: self.body(depth - 1)
        return self.one_of([
            plain, plain, plain, f"{{{{ 'x' if {self.truth(1)} }}}}",
            f"{{% if {self.truth(1)} %}}{inner()}{{% elif {self.truth(1)} %}}{inner()}{{% else %}}{inner()}{{% endif %}}",
            f"{{% for x in {self.list(1)} %}}{{{{ loop.index }}}}/{{{{ loop.length }}}}:{{{{ x }}}}{{% if not loop.last %}}, {{% endif %}}{{% else %}}none{{% endfor %}}",
            f"{{% for p in inputs.people if p.age > 20 -%}}\n{{{{ p.name | upper }}}} ({{{{ p.age }}}}) {{{{ p.ok }}}}\n{{% endfor %}}",
            f"{{% for k in inputs.map %}}{{{{ k }}}}={{{{ inputs.map[k] }}}};{{% endfor %}}",
            f"{{% for a, b in [[1, 'x'], [2, inputs.word]] %}}{{{{ a }}}}{{{{ b }}}}{{% endfor %}}",
            f"{{% set v = {self.expression(1)} %}}[{{{{ v }}}}]",
            f"{{% set v %}}{inner()}{{% endset %}}{{{{ v | length }}}}",
            f"{{% with v = {self.number(1)} %}}{{{{ v * 2 }}}}{{% endwith %}}",
            f"{{% filter upper %}}{inner()}{{% endfilter %}}",
            f"{{# {self.one_of(['a note', '{{ not.this }}'])} #}}",
            f"{{% raw %}}{{{{ raw }}}}{{% endraw %}}",
        ])


def main(worker, wanted=1000, seed=2026):
    environment, templates = jinja(), Templates(seed)
    cases, failing = [], []
    while len(cases) < wanted:
        source, context = templates.body(2), templates.context()
        if templates.random.random() < 0.05:
            source += templates.one_of(BROKEN)
        if len(source.encode()) > 8192:
            continue
        try:
            expected = environment.from_string(source).render(context)
            cases.append((source, context, expected))
        except Exception as error:
            failing.append((source, context, error))
    lines = [json.dumps({"form": "text", "source": source, "context": context}) for source, context, _ in cases + failing]
    answers = subprocess.run([worker], input="\n".join(lines) + "\n", stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout.splitlines()
    assert len(answers) == len(lines), (len(answers), len(lines))
    answers = [json.loads(answer) for answer in answers]
    differ = 0
    for (source, context, expected), answer in zip(cases, answers):
        if answer.get("done") != expected:
            differ += 1
            if differ <= 10:
                print(f"template: {source!r}\ninputs:   {as_json(context['inputs'])}\njinja:    {expected!r}\nours:     {answer}\n", file=sys.stderr)
    lenient = 0
    for (source, _, error), answer in zip(failing, answers[len(cases):]):
        if "done" in answer:
            lenient += 1
            print(f"template: {source!r}\njinja:    {error!r}\nours:     {answer}\n", file=sys.stderr)
    print(f"{len(cases) - differ} of {len(cases)} templates render as Jinja does; of {len(failing)} that Jinja refuses, {lenient} render here")
    return 1 if differ or lenient else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *(int(argument) for argument in sys.argv[2:])))
