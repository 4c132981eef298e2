"""Whether the compiler or an engine is wrong: the compiled program, enumerated by the
reference interpreter, against the oracle."""

from __future__ import annotations

import math
from typing import Any

from reference import Impossible, infer

import nesymm
from differential import oracle
from differential import syntax as s


def blame(case: s.Case) -> str:
    """A sentence about who is at fault."""
    try:
        step = nesymm.compile(case.text).step
        parameters = nesymm.compile(case.text).parameters
        for b, right in enumerate(oracle.expect(case)):
            wrong = _compare(case, step, parameters, b, right)
            if wrong:
                return f"the compiled program is wrong: {wrong}"
    except Exception as error:
        return f"the reference interpreter does not say: {type(error).__name__}: {error}"[:300]
    return "the compiled program is right (reference interpreter)"


def _compare(case: s.Case, step: Any, parameters: Any, b: int, right: oracle.Expected) -> str:
    inputs, data = {}, {}
    length = case.lengths[b]
    for x in case.statements:
        if isinstance(x, s.Input):
            values = case.data[x.name][b]
            inputs[x.name] = values[:length] if x.timed else values
        elif isinstance(x, s.Observe) and x.value is None:
            own = case.data[x.atom.name]
            wanted = {o.name for o in step.observations}
            if x.atom.name in wanted and () not in own:
                data[x.atom.name] = [{k: v[b][t] for k, v in own.items()} for t in range(length)]
            else:
                for k, v in own.items():
                    label = f"{x.atom.name}({','.join(map(str, k))})" if k else x.atom.name
                    data[label] = v[b][:length]
    try:
        found = infer(step, length - 1, data, inputs, None, parameters)
    except Impossible:
        return "" if right.failed is not None else "impossible"
    if right.failed is not None:
        return "evidence that is impossible is possible"
    if abs(math.log(found.evidence) - right.log_evidence) > 1e-6:
        return f"log-evidence {math.log(found.evidence):.6g} for {right.log_evidence:.6g}"
    for name, p in right.final.items():
        if abs(found.queries.get(name, 0.0) - p) > 1e-6:
            return f"{name} {found.queries.get(name, 0.0):.6g} for {p:.6g}"
    for name, row in right.filtered.items():
        asked = [p for p in row if not math.isnan(p)]
        other = found.filtered.get(name, [0.0] * len(asked))
        if any(abs(p - q) > 1e-6 for p, q in zip(asked, other, strict=False)):
            return f"{name} {other} for {asked}"
    return ""
