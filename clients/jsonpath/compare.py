"""Makes paths and documents, and compares what our JSONPath selects with what python-jsonpath does.

compare.py <program> [cases]: the program answers one line of JSON with one line of JSON.
"""

import json
import random
import re
import subprocess
import sys

from jsonpath import JSONPathEnvironment
from jsonpath.exceptions import JSONPathError
from jsonpath.selectors import SliceSelector

SEED = 9535
# Every n-th path is spoilt.
SPOILT = 5
NAMES = ["a", "b", "c", "d", "é", "a b", "", "0", "x.y", "it's", 'say "x"', "$", "null"]
SHORT = ["a", "b", "c", "d", "é", "_x1", "null"]
# What the standard has and we refuse: these cases are in docs/concepts/definitions.md.
REFUSED = [
    "$[?match(@.a, 'a+')]", "$[?search(@, 'a')]", "$..a..b", "$..*..*", "$[?@..a]", "$[?@.a == $.b]", "$[?$.a]", "$[?@.a > @.b]", "$[?@.a <= true]",
    "$[?@[-1] == 1]", f"$[{','.join(['*'] * 17)}]", "$[*,*][*,*][*,*][*,*][*,*]", "$[?" + "(" * 9 + "@.a" + ")" * 9 + "]", "$." + "a" * 512,
]
# The other library refuses `..null`, which the standard allows.
THEIRS = [name for name in SHORT if name != "null"]
STRINGS = ["", "a", "b", "é", "😀", "1", "true"]
ORDERED = ["0", "1", "-1", "1.5", "1e3", "'a'", '"é"', "''", "100"]
NUMBERS = [0, 1, 2, -1, 3, 1.5, -0.5, 100, 1e3]


class Maker:
    def __init__(self, seed):
        self.dice = random.Random(seed)

    def document(self, depth=4):
        kind = self.dice.random()
        if depth == 0 or kind < 0.3:
            return self.dice.choice([None, True, False, *NUMBERS, *STRINGS])
        if kind < 0.6:
            return [self.document(depth - 1) for _ in range(self.dice.randrange(5))]
        return {self.dice.choice(NAMES if self.dice.random() < 0.3 else SHORT): self.document(depth - 1) for _ in range(self.dice.randrange(1, 6))}

    def path(self):
        """One that we support: `..` once and in no filter, `$` in no filter, few selectors, order with a literal on the right."""
        self.in_filter = False
        self.descents = 1
        return "$" + "".join(self.segment(2) for _ in range(self.dice.randrange(5)))

    def segment(self, filters):
        kind = self.dice.random()
        if kind < 0.3:
            return "." + self.dice.choice(SHORT)
        if kind < 0.4:
            return ".*"
        if kind < 0.5 and self.descents:
            self.descents = 0
            return ".." + self.dice.choice([self.dice.choice(THEIRS), "*", self.bracket(filters)])
        return self.bracket(filters)

    def bracket(self, filters):
        if self.dice.random() < 0.15:
            # The other library refuses `[1,:2]`, which the standard allows.
            selectors = [self.selector(0), re.sub("^:", "0:", self.selector(0))]
        else:
            selectors = [self.selector(filters)]
        space = self.dice.choice(["", "", " "])
        return "[" + space + f",{space}".join(selectors) + space + "]"

    def selector(self, filters):
        kind = self.dice.randrange(5 if filters else 4)
        if kind == 0:
            return self.quoted(self.dice.choice(NAMES))
        if kind == 1:
            return str(self.dice.randrange(0 if self.in_filter else -4, 5))
        if kind == 2:
            return "*"
        if kind == 3:
            part = lambda: self.dice.choice(["", str(self.dice.randrange(0 if self.in_filter else -5, 6))])
            return f"{part()}:{part()}" + self.dice.choice(["", ":", f":{self.dice.randrange(-3, 4)}"])
        return "?" + self.either(filters - 1)

    def quoted(self, text):
        quote = self.dice.choice("'\"")
        return quote + text.replace("\\", "\\\\").replace(quote, "\\" + quote) + quote

    def either(self, filters, depth=2):
        terms = [self.term(filters, depth) for _ in range(self.dice.choice([1, 1, 1, 2, 3]))]
        return terms[0] + "".join(self.dice.choice([" && ", " || ", "&&", "||"]) + term for term in terms[1:])

    def term(self, filters, depth):
        kind = self.dice.random()
        if kind < 0.15 and depth:
            return self.dice.choice(["", "!"]) + "(" + self.either(filters, depth - 1) + ")"
        if kind < 0.4:
            return self.dice.choice(["", "!"]) + self.relative(filters)
        space = self.dice.choice(["", " "])
        if self.dice.random() < 0.5:
            return self.comparable() + space + self.dice.choice(["==", "!="]) + space + self.comparable()
        return self.comparable() + space + self.dice.choice(["<", "<=", ">", ">="]) + space + self.dice.choice(ORDERED)

    def relative(self, filters):
        descents, self.descents = self.descents, 0
        outer, self.in_filter = self.in_filter, True
        path = "@" + "".join(self.segment(filters) for _ in range(self.dice.randrange(1, 3)))
        self.descents, self.in_filter = descents, outer
        return path

    def comparable(self):
        kind = self.dice.random()
        if kind < 0.45:
            return "@" + "".join(self.dice.choice([f".{self.dice.choice(SHORT)}", f"[{self.dice.randrange(3)}]"]) for _ in range(self.dice.randrange(3)))
        if kind < 0.55:
            return f"length(@.{self.dice.choice(SHORT)})"
        if kind < 0.62:
            return f"count(@{self.dice.choice(['.*', '[0]', '[*]'])})"
        if kind < 0.66:
            return f"value(@{self.dice.choice(['.a', '[0]', '.*'])})"
        return self.dice.choice(["null", "true", "false", "0", "1", "-1", "1.5", "1e3", "'a'", '"é"', "''", "100"])

    def spoilt(self, path):
        """The same with one character lost, doubled or added, which is often no path any more."""
        at = self.dice.randrange(len(path))
        kind = self.dice.randrange(3)
        if kind == 0:
            return path[:at] + path[at + 1 :]
        added = path[at] if kind == 1 else self.dice.choice("$@.[]()'\"*?:,-0a =!&|<\\")
        return path[:at] + added + path[at:]


class Environment(JSONPathEnvironment):
    def compare(self, left, operator, right):
        """To the other library true is 1. The standard says that it has no order."""
        unordered = operator in ("<", "<=", ">", ">=") and isinstance(left, bool) and not isinstance(right, bool)
        return False if unordered else super().compare(left, operator, right)


def slice_arrays_only(selector, node):
    """The other library slices texts too. The standard says that only arrays are sliced."""
    return iter(()) if isinstance(node.obj, str) else slice_anything(selector, node)


slice_anything = SliceSelector.resolve
SliceSelector.resolve = slice_arrays_only


def theirs(environment, path, document):
    try:
        compiled = environment.compile(path)
        if compiled.empty():
            nodes = [document]
        else:
            nodes = compiled.findall(document)
    except JSONPathError:
        return {"code": "jsonpath_invalid"}
    if not nodes:
        return {}
    return {"selected": nodes[0] if compiled.singular_query() else nodes}


def same(one, other):
    """Equal as JSON: to Python, true is 1."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def main():
    program, cases = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    environment = Environment(strict=True)
    maker = Maker(SEED)
    questions = []
    for number in range(cases):
        path = maker.path()
        questions.append({"path": maker.spoilt(path) if number % SPOILT == 0 else path, "value": maker.document()})
    questions.extend({"path": path, "value": {}} for path in REFUSED)
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    answers = subprocess.run([program], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(answers) == len(questions), f"{len(answers)} answers to {len(questions)} questions"
    counts = {"selected": 0, "nothing": 0, "refused": 0, "unsupported": 0, "refused by us alone": 0}
    differences = 0
    for path, line in zip(REFUSED, answers[cases:]):
        environment.compile(path)
        if json.loads(line) != {"code": "jsonpath_unsupported"}:
            differences += 1
            print(f"{path} is a path of the standard that we refuse, and the answer is {line}")
    for number, (question, line) in enumerate(zip(questions[:cases], answers)):
        ours = json.loads(line)
        spoilt = number % SPOILT == 0
        expected = theirs(environment, question["path"], question["value"])
        if spoilt and ours.get("code") == "jsonpath_unsupported":
            counts["unsupported"] += 1
        elif spoilt and "code" in ours and "code" not in expected:
            # The other library reads some paths that are none, such as `$.d-[1]`.
            counts["refused by us alone"] += 1
        elif same(ours, expected):
            counts["selected" if "selected" in ours else "refused" if "code" in ours else "nothing"] += 1
        elif not (spoilt and ("..null" in question["path"] or ",:" in question["path"])):
            differences += 1
            if differences <= 10:
                print(f"{json.dumps(question, ensure_ascii=False)}\n  ours   {line}\n  theirs {json.dumps(expected, ensure_ascii=False)}")
    print(f"JSONPath: {cases} cases ({', '.join(f'{count} {name}' for name, count in counts.items())}), {differences} differences")
    few = [name for name in ("selected", "nothing", "refused") if counts[name] < cases // 50]
    sys.exit(1 if differences or few else 0)


main()
