"""The names that the language brings along: builtin predicates, functions, families."""

from __future__ import annotations

COMPARISONS = frozenset({"<", ">", "=<", ">=", "=:=", "=\\="})

# name -> the numbers of arguments it takes
PREDICATES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(COMPARISONS, (2,)),
    "=": (2,),
    "\\=": (2,),
    "==": (2,),
    "\\==": (2,),
    **dict.fromkeys(("@<", "@>", "@=<", "@>="), (2,)),
    "compare": (3,),
    "is": (2,),
    "true": (0,),
    "fail": (0,),
    "false": (0,),
    "between": (3,),
    "succ": (2,),
    "plus": (3,),
    "member": (2,),
    "memberchk": (2,),
    "append": (2, 3),
    "length": (2,),
    "nth0": (3,),
    "nth1": (3,),
    "reverse": (2,),
    "last": (2,),
    "sum_list": (2,),
    "sumlist": (2,),
    "max_list": (2,),
    "min_list": (2,),
    "sort": (2,),
    "msort": (2,),
    "list_to_set": (2,),
    "select": (3,),
    "subquery": (2, 3, 5),
    "distance": (3, 4),
    "number": (1,),
    "integer": (1,),
    "float": (1,),
    "atom": (1,),
    "atomic": (1,),
    "compound": (1,),
    "is_list": (1,),
    "ground": (1,),
    "var": (1,),
    "nonvar": (1,),
    "call": (1, 2, 3, 4, 5, 6, 7, 8),
}

# What a program may define for itself: its definition takes the place of the one here, as it does
# in ProbLog, where these are libraries or nothing.
LIBRARY = frozenset({
    "member", "memberchk", "append", "nth0", "nth1", "reverse", "last", "sum_list", "sumlist",
    "max_list", "min_list", "msort", "list_to_set", "select", "distance", "aggregate_all",
})  # fmt: skip

# Handled by the checker itself, since they take goals.
GOALS: dict[str, tuple[int, ...]] = {
    "not": (1,),
    "findall": (3,),
    "all": (3,),
    "aggregate_all": (3,),
    "forall": (2,),
}

# What is collected in a list.
LISTS = frozenset({"findall", "all", "set"})

AGGREGATES = frozenset({"count", "sum", "min", "max", "avg", "bag", "set"})

# Prolog that we know and refuse: why, and what to do instead.
REFUSED: dict[str, tuple[str, str]] = {
    "!": (
        "cut depends on the order in which clauses are tried",
        "write the condition out",
    ),
    "->": ("if-then-else commits to one answer", "write two clauses, one with `not`"),
    **dict.fromkeys(
        ("=..", "functor", "arg"),
        (
            "terms cannot be taken apart by name here",
            "name the term in the head of a clause: `left(pair(X, Y), X).`",
        ),
    ),
    **dict.fromkeys(
        ("assert", "asserta", "assertz", "retract"),
        (
            "a program does not change while it runs",
            "state it as a fact or a rule; what changes over time has a time: "
            "`seen@t :- seen@(t-1).`",
        ),
    ),
    "copy_term": (
        "variables have no identity beyond their clause",
        "give the variables of the second term names of their own",
    ),
    **dict.fromkeys(
        ("setof", "bagof"),
        (
            "it depends on the order in which answers are found",
            "write `findall(X, goal(X), L)`, and `sort(L, S)` for a set",
        ),
    ),
    "cut": (
        "it depends on the order in which clauses are tried",
        "say in each clause that those before it do not apply: `m(X, Y, X) :- X > Y.`",
    ),
    "clause": (
        "a program does not look at its own clauses",
        "state as facts what is to be looked at: `rule(a, b).`",
    ),
    "once": ("it commits to one answer", "all answers count here"),
    **dict.fromkeys(
        ("write", "writeln", "print", "nl"),
        ("programs do not print", "remove it, and query what you want to see"),
    ),
}

# Of these, what a program may define itself.
REFUSED_UNDEFINED = frozenset({"cut", "clause"})

# Directives and libraries that we know and refuse.
REFUSED_DIRECTIVES: dict[str, tuple[str, str]] = {
    "sqlite_load": (
        "databases are not read",
        "export each table as text, and read it by `:- csv_load('edges.csv', edge).`",
    ),
}
REFUSED_LIBRARIES: dict[str, tuple[str, str]] = {
    "cut": REFUSED["cut"],
    "assert": REFUSED["assert"],
    "record": REFUSED["assert"],
    "scope": (
        "a scope is a name that is known before the program runs",
        "write `home:lamp(X)`, which needs no library",
    ),
    "collect": (
        "a goal with `=>` puts together the name of what it calls",
        "use `aggregate_all(sum(X), goal(X), S)`, `findall(X, goal(X), L)` or an aggregate in a "
        "head: `total(P, sum<S>) :- score(P, S).`",
    ),
}

# Prolog's name -> (operation of the step program, number of arguments)
FUNCTIONS: dict[tuple[str, int], str] = {
    ("+", 2): "add",
    ("-", 2): "sub",
    ("*", 2): "mul",
    ("/", 2): "div",
    ("//", 2): "idiv",
    ("mod", 2): "mod",
    ("min", 2): "min",
    ("max", 2): "max",
    ("**", 2): "pow",
    ("^", 2): "pow",
    ("-", 1): "neg",
    ("abs", 1): "abs",
    ("sqrt", 1): "sqrt",
    ("exp", 1): "exp",
    ("log", 1): "log",
    ("sin", 1): "sin",
    ("cos", 1): "cos",
    ("tan", 1): "tan",
    ("atan", 1): "atan",
    ("tanh", 1): "tanh",
    ("floor", 1): "floor",
    ("ceiling", 1): "ceiling",
    ("round", 1): "round",
    ("truncate", 1): "truncate",
    ("integer", 1): "truncate",
    ("sign", 1): "sign",
    ("float", 1): "float",
}
FUNCTION_CONSTANTS = {"pi": 3.141592653589793, "e": 2.718281828459045, "inf": float("inf")}
