"""What random programs are made of: kinds of values, and how each is written.

A production is Python text with holes:

    <vec>    an expression of that kind        <vec~>  a name of that kind
    <vec!>   a name that may be written in place
    <vec=>   a name that gets such a value        <vec+>  one that has such a value before, too
    <L:list~> ... <L>    the same text again

Kinds of Tensors: vec (three floats), num (one), mat (2 x 3), dbl (three Float64), whole (an Int32),
longs (three Int64), truth (a Bool), mask (three).  Kinds of Python: int, float, bool, str, text (a
string that is only shown), list (of two vec), bag (one num or more), pair (num, int), table ({"v":
vec, "n": int}), nest (list, vec), grid ({"a": list}), maybe (None or vec), fn (vec -> vec), box
(an object).  `known` is an int and `fixed` a truth that are known while compiling, `pure` a fn that
nobody assigns to.
"""

# The names of variables of each kind, which functions and loops add to.
NAMES = {
    "vec": "a b", "num": "s t", "mat": "m", "dbl": "d", "whole": "w", "longs": "u", "truth": "y1",
    "int": "i j", "float": "f", "bool": "ok", "str": "name", "list": "l1 l2", "bag": "bag",
    "pair": "pair", "table": "table", "nest": "nest", "grid": "grid", "maybe": "last", "fn": "g",
    "box": "box",
}  # fmt: skip

# What ends an expression of each kind.
LITERALS = {
    "vec": ["Tensor([0.3, -0.1, 0.8])", "ops.ones(3)"],
    "num": ["Tensor(0.25)", "Tensor(-0.5)"],
    "mat": ["ops.ones((2, 3))"],
    "dbl": ["Tensor([0.1, 0.7, -0.2], ms.float64)"],
    "whole": ["Tensor(2, ms.int32)"],
    "longs": ["ops.arange(3)", "Tensor([2, 0, 1])"],
    "truth": ["Tensor(True)"],
    "mask": ["<vec> > 0.2", "Tensor([True, False, True])"],
    "int": ["0", "1", "2", "3"],
    "float": ["0.5", "-0.25", "2.0"],
    "bool": ["True", "False"],
    "str": ["'a'", "'b'"],
    "text": ["'t'"],
    "list": ["[<vec>, <vec>]"],
    "bag": ["[<num>]"],
    "pair": ["(<num>, 1)"],
    "table": ["{'v': <vec>, 'n': 1}"],
    "nest": ["(<list>, <vec>)"],
    "grid": ["{'a': <list>}"],
    "maybe": ["None"],
    "fn": ["ops.tanh", "ops.sin"],
    "box": ["Box(<vec>, 1)"],
    "pure": ["ops.tanh", "(lambda v: v * v)"],
    "depth": ["0", "1", "2", "4"],
    "steps": ["<whole> % 4"],
    "known": ["0", "1", "2", "3"],
    "fixed": ["True", "False"],
    "factor": ["0.5", "-0.5", "0.25"],
    "bound": ["-0.3", "0.1", "0.4", "0.7", "1.5"],
    "bit": ["0", "1", "-1"],
}

EXPRESSIONS = {
    "vec": """
        <vec> * <factor>
        <vec> * 0.5 + <vec> * <factor>
        ops.tanh(<vec>)
        ops.sin(<vec> - <vec>)
        <vec> * <num>
        <num> + <vec> * 0.5
        <vec> / (1.5 + ops.abs(<vec>))
        <vec~>.copy()
        ops.stack([<num>, <num>, <num>])
        ops.concat([<vec>[1:], <vec>[:1]])
        ops.where(<mask>, <vec>, <vec>)
        ops.maximum(<vec>, <vec>)
        ops.clamp(<vec>, -1.0, 1.0)
        <vec>[<longs> % 3]
        ops.cumsum(<vec>, 0) * 0.5
        <mat>[<bit>] * 1
        <mat>.sum(axis=0) * 0.5
        <dbl>.astype(ms.float32)
        <longs> * 0.25
        <list>[<bit>]
        <nest>[1]
        <table>['v']
        <box>.v
        <fn>(<vec>)
        (<vec> if <cond> else <vec>)
        (<vec> if <M:maybe~> is None else <M> * 0.5)
        ops.rand(3)
        ops.dropout(<vec>, 0.5)
        (lambda v: v * 0.5 + <vec>)(<vec>)
        [lambda v: v * i1 for i1 in range(3)][<bit>](<vec>)
        [v * <factor> for v in <list>][<bit>]
        sum(v * 0.5 for v in <list>)
        <bool> * <vec>
        <float> * <vec>
        SELF.inner(<vec>)
        SELF.blocks[<int> % 2](<vec>)
        ms.grad(<pure>)(<vec>)
        ms.grad(<pure>, None, SELF.p)(<vec>)
        ops.cond(<truth>, <fn>, <fn>, <vec>)
        ops.WhileLoop()(lambda v: v.sum() > <bound>, lambda v: v * 0.5 - 0.1, <vec>)
        ops.ForiLoop()(0, <int>, lambda i1, v: v * 0.5 + i1, <vec>)
        ops.Scan()(lambda v, u1: (v * 0.5 + u1, v), <vec>, <list>, 2)[0]
        ms.jvp(<pure>, <vec>, <vec>)[1]
        ms.vjp(<pure>, <vec>)[1](<vec>)[0]
        <vec> / <num>
        [v * i1 for v in <list> for i1 in range(2)][<bit>]
    """,
    "num": """
        <vec>.sum()
        <vec>.mean()
        <vec>.max()
        <vec>[<bit>] * 1
        <vec>[<whole> % 3]
        <vec>[<int> % 3]
        <num> * <factor>
        <num> * 0.5 + <num> * <factor>
        ops.tanh(<num>)
        <num> - <int>
        <num> * <float>
        <pair>[0]
        <bag>[-1]
        sum(<bag>) * 0.25
        <whole> * 0.25
        <dbl>.sum().astype(ms.float32)
        (<num> if <cond> else <num>)
        max(<num>, <num>)
        ops.where(<truth>, <num>, <num>)
        <vec>[1:].sum()
        <num> / <num>
        ms.value_and_grad(lambda v: v * v * <num>)(<num>)[1]
    """,
    "mat": """
        ops.stack([<vec>, <vec>])
        <mat> * <num>
        <mat> * 0.5 + <vec>
        ops.tanh(<mat>)
        <mat>[::-1] * 1
        (<mat> if <cond> else <mat>)
        ops.stack(<list>)
    """,
    "dbl": """
        <dbl> * <factor>
        <dbl> * 0.5 + <vec>
        <vec>.astype(ms.float64)
        ops.tanh(<dbl>)
        (<dbl> if <cond> else <dbl>)
    """,
    "whole": """
        (<whole> + 1) % 5
        <whole> * 2 % 7
        (<whole> + <int>) % 5
        <whole> // 2
        <num>.astype(ms.int32)
        (<whole> if <cond> else <whole>)
    """,
    "longs": """
        (<longs> + 1) % 4
        <longs> * <whole> % 5
        ops.cumsum(<longs>, 0) % 6
        <vec>.astype(ms.int64)
    """,
    "truth": """
        <num> > <bound>
        <vec>.sum() > <bound>
        (<vec> > <bound>).any()
        <whole> > <known>
        <dbl>.sum() < <bound>
        ops.logical_not(<truth>)
        ops.logical_and(<truth>, <truth>)
        (<longs> % 2).sum() == <known>
    """,
    "mask": """
        <vec> > <bound>
        <dbl> > <vec>
        ops.logical_not(<mask>)
        <longs> % 2 == 0
    """,
    "int": """
        (<int> + <int>) % 5
        (<int> - <int>) % 4
        <int> * <int> % 7
        <int> // 2
        -<int> % 3
        len(<list>)
        int(<whole>)
        int(<num> * 3) % 4
        <pair>[1]
        <table>['n']
        <box>.n
        (<int> if <cond> else <int>)
        min(<int>, <int>)
        max([<int>, <int>], key=lambda v: -v)
        sum(i1 for i1 in range(3) if i1 > <known>)
        abs(<int> - 2)
        round(<float>) % 5
        int(<bool>)
        [<int>, <int>][<int> % 2]
        {'a': <int>, 'b': 2}[<str>]
    """,
    "float": """
        float(<num>)
        <float> * SCALE
        <float> + <int>
        <int> / 4
        (<float> if <cond> else <float>)
        abs(<float>)
        min(<float>, 1.5)
        round(<float>, 1)
    """,
    "bool": """
        not <bool>
        <int> > <known>
        <int> % 2 == <int> % 2
        bool(<truth>)
        <float> < 0.4
        <maybe~> is None
        <maybe~> is not None
        isinstance(<maybe~>, Tensor)
        <int> in (1, 2)
        <str> == 'a'
        <str> in ('b', 'c')
        (<bool> and <bool>)
        (<bool> or <bool>)
        any(<list>[0] > 0.3)
        all(v > <bound> for v in <bag>)
        <known> < <int> <= 3
    """,
    "str": """
        ('a' if <cond> else 'b')
        (<str> if <cond> else <str>)
        'ab'[<known> % 2]
        <str>.lower()
    """,
    "text": """
        f"{<num~>} and {<int~>:>3}"
        f"{<float~>:.2f}|{<str~>!r}|{<bool~>}"
        f"{<vec~>} {<whole~>} {<known> + 1}"
        <str> + 'z'
        str(<int>)
        repr(<num>)
        <text> + '!'
        (<text>).upper()
        '%d %s' % (<int>, <str>)
    """,
    "list": """
        [<vec>, <vec>]
        <nest~>[0]
        <grid~>['a']
        [v * 0.5 for v in <list>]
        [*<list>]
        list(reversed(<list>))
        <list>[::-1]
    """,
    "bag": """
        [<num>, <num>]
        [v.sum() for v in <list>]
        [v for v in <vec>]
        <bag~>[:1]
    """,
    "pair": """
        (<num>, <int>)
        (<P:pair~>[0] * 0.5, <P>[1] + 1)
    """,
    "table": """
        {'v': <vec>, 'n': <int>}
        dict(<table>, n=<int>)
        {**<table>, 'n': <int>}
        {i1: i2 for i1, i2 in zip(('v', 'n'), (<vec>, <int>))}
    """,
    "grid": """
        {'a': <list>}
    """,
    "nest": """
        (<list>, <vec>)
        (<N:nest~>[0], <N>[1] * 0.5)
        tuple([<list>, <vec>])
    """,
    "maybe": """
        None
        <vec> * 0.5
        (None if <cond> else <vec> * 0.5)
        ops.tanh(<vec>)
    """,
    "fn": """
        (<fn> if <cond> else <fn>)
        (lambda v: v * 0.5 + <vec~>)
        [ops.tanh, ops.sin][<bit>]
        {'a': ops.tanh, 'b': ops.sin}['b']
        (lambda v: lambda b: b * 0.5 + v)(<vec>)
    """,
    "box": """
        Box(<vec>, <int>)
        Box(<vec>, <int>) + <box>
    """,
    # What stands in an `if`: decided by Tensors, by numbers that depend on them, or by constants.
    "cond": """
        <truth>
        <num> > <bound>
        <num> > <bound>
        <vec>.sum() > <bound>
        <bool>
        <int>
        <whole>
        <num> > <bound> and <truth>
        <truth> or <bool>
        not <truth>
        not (<bool> and <truth>)
        <num> < <num> < <num>
        <fixed>
        <maybe~> is None
        <str> == 'b'
        <float> > <bound>
    """,
    "known": """
        len(<list>)
        <mat>.shape[0]
        <vec>.ndim + 1
        <known> + 1
        (<known> + 1) % 3
    """,
    "fixed": """
        <known> > 1
        not <fixed>
        <fixed> and <fixed>
        <known> in (0, 1)
        SELF.training
    """,
}

# Statements of one line (or of several, one after the other).
STATEMENTS = {
    "assign": """
        <vec=> = <vec>
        <vec=> = <vec> * <factor>
        <vec=> = ops.tanh(<vec> + <vec>)
        <num=> = <num>
        <num=> = <num> * 0.5
        <mat=> = <mat>
        <dbl=> = <dbl>
        <whole=> = <whole>
        <longs=> = <longs>
        <truth=> = <truth>
        <int=> = <int>
        <int=> = (<int> + 1) % 6
        <float=> = <float>
        <bool=> = <bool>
        <pair=> = <pair>
        <maybe=> = <maybe>
        <vec=>, <num=> = <vec> * 0.5, <num>
        <num=>, <int=> = <pair>
        <num=>, *_ = <vec>
        <vec+> += <vec> * 0.5
        <num+> -= <num> * 0.5
        <int+> += 1
        <float+> *= 0.5
        <vec=> = <vec=> = <vec> * 0.5
        <num=> = (t1 := <num> * 0.5) + t1
    """,
    # New containers, functions and objects; what a loop or arm that Tensors decide seldom keeps.
    "make": """
        <list=> = <list>
        <list=> = <list~>
        <list=> = <grid~>['a']
        <grid=> = <grid>
        <list=> = [<vec>, <vec> * 0.5]
        <bag=> = <bag>
        <table=> = <table>
        <nest=> = <nest>
        <str=> = <str>
        <fn=> = <fn>
        <box=> = <box>
        <vec=> = <vec~>
    """,
    "items": """
        <list~>[<bit>] = <vec>
        <list~>[0] = <vec> * 0.5
        <list~>[<int> % 2] = <vec>
        <L:list~>[0], <L>[1] = <L>[1], <L>[0]
        <list~>.reverse()
        <L:list~>.append(<vec>); <vec=> = <L>.pop(0)
        <vec=> = next(iter(<list>))
        <L:list~>.insert(1, <vec>); del <L>[0]
        <L:list~>[:] = [<vec>, <L>[0]]
        <L:list~> += [<vec>]; <L>.pop()
        <nest~>[0][<bit>] = <vec>
        <table~>['v'] = <vec>
        <table~>['n'] += 1
        <G:grid~>.get('a')[<bit>] = <vec>
        <list=> = <G:grid~>.pop('a'); <G>['a'] = [<vec>, <vec>]
        <G:grid~>['a'].append(<G>['a'].pop(0))
        <table~>.update(n=<int>)
        <T:table~>['q'] = <num>; <num=> = <T>.pop('q')
        <box~>.v = <vec>
        <box~>.n += 1
        <vec=> = <box~>.step(<vec>)
        <box~>.v, <int=> = <vec>, <box>.n
    """,
    "write": """
        <vec!>[<bit>] = <num>
        <vec!>[<int> % 3] = <factor>
        <vec!>[<whole> % 3] = <num>
        <vec!>[1:] = <vec>[1:]
        <vec!>[<vec> > <bound>] = 0.25
        <vec!>.add_(<vec> * 0.5)
        <vec!>.mul_(<factor>)
        <vec!>.copy_(<vec>)
        <num!>.add_(<num> * 0.5)
        <mat!>[<bit>] = <vec>
        <dbl!>.sub_(<vec> * 0.5)
        <whole!>.copy_(<whole>)
        <list~>[<bit>].mul_(0.5)
        <nest~>[1].add_(<vec> * 0.5)
        <box~>.v.mul_(<factor>)
        <table~>['v'][<bit>] = <num>
        <vec>.add_(0.25)
    """,
    "state": """
        ops.assign(SELF.p, <vec>)
        ops.assign(SELF.q, <num>)
        ops.assign_add(SELF.p, <vec> * 0.25)
        SELF.p += <vec> * 0.5
        SELF.q *= <factor>
        SELF.p[<bit>] = <num>
        SELF.w[<bit>] = <vec>
        SELF.p.set_data(<vec> * 0.5)
        SELF.h = <vec> * 1.0
        SELF.h = ops.tanh(<vec>)
        SELF.g[<bit>] = <num>
        SELF.e = <num> * 0.5
        SELF.h.add_(<vec> * 0.5)
        SELF.inner.w.mul_(0.5)
        SHARED.add_(<vec> * 0.25)
        SHARED[<bit>] = <num>
        POOL[<bit>].mul_(0.5)
    """,
    "alias": """
        SELF.h = <vec!>
        SELF.g = <vec!>
        SELF.g, SELF.h = SELF.h, SELF.g
    """,
    "effect": """
        print(<num>, <int>)
        print(<str>, <text>)
        print(<text>)
        print(<vec>, sep=';', end='|')
        print(<list>, <bool>, <maybe~>)
        print(<table>, <pair>)
        assert <num> < <bound> + 2, 'too much'
        assert <num> < 2 or <cond>, <text>
    """,
    # What no graph may hold, or what is an error: both must say so.
    "hostile": """
        <vec=> = None
        <vec=> = <num>
        <vec=> = <int>
        <vec=> = <vec>[:2]
        <num=> = <float>
        <int=> = <float>
        <whole=> = <int>
        <bool=> = <truth>
        <list=> = [<vec>]
        <list=> = (<vec>, <vec>)
        <list~>.append(<vec>)
        <bag~>.append(<num>)
        <bag~>.pop()
        <table~>['new'] = <num>
        <table~>.pop('n')
        <str=> = <int>
        <maybe=> = <int>
        <fn=> = None
        <vec=> = <maybe~> * 0.5
        <vec=> = later
        <vec=> = <vec>.nothing
        <int=> = 1 // <int>
        <int=> = [1, 2][<int>]
        <int=> = {1: 2}[<int>]
        <int=> = {<int>: 1}.get(1, 0)
        <int=> = [v for v in <bag> if v > <bound>].count(0)
        <int=> = sorted(<bag>).index(<bag>[0])
        <int=> = len(str(<int>))
        <bool=> = <list>[0] is <list>[1]
        <vec=> = ops.ones(<int> + 1)
        <vec=> = POOL[<bit>]
        POOL[0] = <vec>
        SELF.depth = <int>
        SELF.new = <num>
        <num=> = <vec> + <mat>[:, :2]
        <bool=> = <vec> > 0 and True
        del <list~>[0]
        <vec=> = <vec> + None
        return <num>
        return
    """,
}

# for <target> in <iterable>: the target's names and kinds, and what is iterated over.
LOOPS = [
    ("i", "int", "range(<known>)"),
    ("i", "int", "range(2)"),
    ("i", "int", "range(3)"),
    ("i", "int", "range(LONG)"),
    ("i", "int", "range(<int>)"),
    ("i", "int", "range(<whole> % 4)"),
    ("i", "int", "range(int(<whole>) % 3 + 1)"),
    ("i", "int", "range(3, 0, -1)"),
    ("i", "int", "[<int>, <int>, 1]"),
    ("v", "vec", "<list>"),
    ("v", "vec", "[*<list>, <vec>]"),
    ("v", "vec", "reversed(<list>)"),
    ("v", "vec", "<mat>"),
    ("v", "vec", "map(<fn>, <list>)"),
    ("v", "num", "<vec>"),
    ("v", "num", "<bag>"),
    ("v", "num", "[<num>, <num>]"),
    ("v", "fn", "(<fn>, <fn>)"),
    ("v", "fn", "SELF.blocks"),
    ("v", "str", "('a', 'b')"),
    ("i v", "int vec", "enumerate(<list>)"),
    ("i v", "int num", "enumerate(<vec>, 1)"),
    ("v i", "vec int", "zip(<list>, [<int>, <int>])"),
    ("v i", "num int", "zip(<vec>, range(3), strict=True)"),
    ("v i", "str vec", "{'a': <vec>, 'b': <vec>}.items()"),
    ("v i", "vec vec", "zip(<list>, <mat>)"),
]


# match <subject>: cases with the names that they bind, their kinds, and conditions.
MATCHES = [
    ("int", ["0", "1 | 3", "i"]),
    ("whole", ["1", "2 | 3", "_"]),
    ("pair", ["(_, 1)", "(t, 2)", "(t, i)"]),
    ("maybe", ["None", "v"]),
    ("str", ["'a'", "str(name)"]),
    ("table", ["{'n': 1}", "{'v': v}", "_"]),
    ("list", ["[v]", "[v, *_]"]),
    ("box", ["Box(n=1)", "Box(v=v, n=i)"]),
]
BOUND = {"i": "int", "t": "num", "v": "vec", "name": "str"}

# What fails for sure, and the class of its error.
ERRORS = [
    ("raise ValueError('thrown')", "ValueError"),
    ("<int=> = {'a': 1}['q']", "KeyError"),
    ("<int=> = 1 // 0", "ArithmeticError"),
    ("<vec=> = <list>[5]", "IndexError"),
    ("<num=> = <vec>.nothing", "AttributeError"),
]


def lines(table: str) -> list[str]:
    """The productions of a table."""
    return [line.strip() for line in table.strip().split("\n")]


EXPRESSIONS = {kind: lines(table) for kind, table in EXPRESSIONS.items()}
STATEMENTS = {kind: lines(table) for kind, table in STATEMENTS.items()}
