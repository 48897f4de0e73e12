"""Example data of all reports: what the commands give them. Not a test."""

import copy
import math

from tacit.report.pages import certificate, comparison, ledger, run

MEMBERS = [{"name": "alder", "rows": 400}, {"name": "birch", "rows": 250}, {"name": "cedar", "rows": 150}]
RUN = {
    "title": "spring study: alder",
    "tacit": "0.2.0",
    "written": "2026-11-17T13:20:11+00:00",
    "member": "alder",
    "run": "0c7f5a" * 10,
    "agents": MEMBERS,
    "edges": [[0, 1], [1, 2], [0, 2]],
    "without": ["dogwood"],
    "exchange": "rows",
    "method": {"name": "pvp", "title": "ADMM, primal perturbation"},
    "records": {
        "label": {"column": "died", "read": "yes, against no"},
        "columns": [{"column": "age", "read": "a number from 0 to 120"}, {"column": "sex", "read": "female, male"}],
        "missing": "Records with a missing value were left out.",
        "unknown": "Other categories than those listed were refused.",
        "public_share": 0.06,
        "held_out": 89,
        "population": "patients of alder, admitted since 2019",
        "cohorts": ["2023", "2024-01"],
    },
    "settings": {"algorithm": "PrimalPerturbedADMM", "l2": 1e-3, "averaged at the end": True},
    "rounds": 65,
    "messages": 65,
    "bytes": 9_315,
    "private": True,
    "statement": "(1, 1e-05)-differentially private for every record of every member, one record replaced by another",
    "epsilon": 0.99999,
    "delta": 1e-5,
    "colluders": 2,
    "dropouts": 0,
    "coalitions": [{"colluders": t, "epsilon": 1.0} for t in range(3)],
    "listening": {"radius": 9.0, "robust": "none", "moved": {"birch": {"ticks": 4, "mean": 0.25, "largest": 0.5}}},
    "ledger": {"spent": 0.99999, "cap": {"epsilon": 2.0, "delta": 1e-5}, "left": 1.00001},
    "warnings": ["delta = 0.1 is not small beside one over 400 rows."],
    "verify": [{"what": "Check the report:", "command": "tacit federation verify federation.toml alder.report.json"}],
}
SHARED = RUN | {
    "colluders": 1,
    "coalitions": [{"colluders": t, "epsilon": cost} for t, cost in ((0, 0.8317), (1, 1.0), (2, 2.155))],
}
_OF_ALL = ("tacit", "written", "agents", "edges", "method", "records", "settings", "rounds", "messages", "bytes")
EXACT = {key: RUN[key] for key in _OF_ALL} | {
    "title": "patients.csv: 3 members, admm",
    "private": False,
    "statement": "not private: exact values were exchanged between the agents",
    "attack": "1 of 3 members lie (flip): a simulation of an attack, not a result",
    "converged": True,
    "consensus_error": 2.4e-4,
    "history": {"average training loss": [0.69, 0.4, 0.33], "largest disagreement of two members": [0.0, 0.5, 0.1]},
    "measured": ["error 0.15; always the most frequent answer: 0.25"],
    "verify": [],
}
LEDGER = {
    "counted_by": "accountant",
    "population": "patients of alder, admitted since 2019",
    "created": "2024-01-08T09:00:00+00:00",
    "cap": {"epsilon": 2.0, "delta": 1e-5},
    "spent": 0.93,
    "left": 1.07,
    "colluders": 2,
    "caps": [
        {"epsilon": cap, "delta": 1e-5, "when": f"{day}T09:00:00+00:00", "who": who, "why": why}
        for cap, day, who, why in (
            (1.0, "2024-01-08", "the data office", "first cap"),
            (2.0, "2025-03-03", "the data office", "raised after the board had met"),
        )
    ],
    "files": [
        {"when": "2024-01-08T09:01:00+00:00", "rows": 400, "records": "ab12" * 16, "cohorts": ["2023", "2024-01"]},
        {"when": "2025-01-09T09:01:00+00:00", "rows": 620, "records": "cd34" * 16, "cohorts": None},
    ],
    "cohorts": [{"cohort": "2023", "spent": 0.93, "runs": 3}, {"cohort": "2024-01", "spent": 0.4, "runs": 1}],
    "runs": [
        {"run": f"{k:02x}" * 32, "when": when, "method": "pvp", "title": title, "rounds": 65, "stored": 65}
        | {"epsilon": alone, "total": total, "left": 2 - total, "events": {"Gaussian(multiplier=30)": 64}}
        for k, (when, title, alone, total) in enumerate(
            [
                ("2024-02-01T08:00:00+00:00", "spring study", 0.5, 0.5),
                ("2024-09-12T08:00:00+00:00", "autumn study", 0.5, 0.74),
                ("2025-05-20T08:00:00+00:00", "falls", 0.5, 0.93),
            ]
        )
    ],
    "forecast": {"run": "falls", "more": 11},
    "head": "fe98" * 16,
    "rows": 397,
}
CERTIFICATE = {
    "valid": True,
    "faults": [],
    "proved": ["every member released what was planned, and no more", "all members were in the same run"],
    "signed_by": [
        {"name": each["name"], "fingerprint": f"{k:02x}:" * 8, "tacit": "0.2.0"} for k, each in enumerate(MEMBERS)
    ],
    "believed": ["each member ran tacit unchanged, on the records that it says"],
    "run": "0c7f5a" * 10,
    "title": "spring study",
    "epsilon": 1.0,
    "delta": 1e-5,
    "colluders": None,
    "members": [
        {"name": each["name"], "rows": each["rows"], "releases": 65, "epsilon": 1.0, "delta": 1e-5} for each in MEMBERS
    ],
}
COMPARISON = {
    "title": "adult",
    "tacit": "0.2.0",
    "written": "2026-11-17T13:20:11+00:00",
    "summary": "Recommended: pvp (ADMM, primal perturbation), test error 0.1589 with 1,460 messages.",
    "error_name": "error",
    "agents": 5,
    "edges": 5,
    "rows": 45_222,
    "epsilon": 1.0,
    "delta": 1e-5,
    "seeds": 2,
    "recommended": "pvp",
    "hostile": "flip:1",
    "methods": [
        {"name": name, "title": title, "error": error, "error_range": [error - 0.002, error + 0.003], "loss": 0.4}
        | {"auc": auc, "epsilon": epsilon, "delta": 1e-5, "colluders": colluders, "dropouts": 0}
        | {"private": epsilon is not None, "decentralised": True, "rounds": 73, "messages": messages, "seeds": 2}
        for name, title, error, auc, epsilon, colluders, messages in (
            ("pvp", "ADMM, primal perturbation", 0.1589, 0.9, 0.99999, 4, 1460),
            ("alone", "each alone", 0.171, 0.88, 1.0, 4, 0),
            ("no-privacy", "exact", 0.155, None, None, None, 4480),
        )
    ],
}
DOCUMENTS = {
    "run": (run, RUN),
    "shared": (run, SHARED),
    "exact": (run, EXACT),
    "ledger": (ledger, LEDGER),
    "certificate": (certificate, CERTIFICATE),
    "comparison": (comparison, COMPARISON),
}
_EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
_FIXED = ("written", "when", "created", "exchange", "robust", "tacit")  # not written by others


def evil(plain):
    """The same with a hostile end of every text that somebody wrote."""
    if isinstance(plain, dict):
        return {key: value if key in _FIXED else evil(value) for key, value in plain.items()}
    if isinstance(plain, list):
        return [evil(value) for value in plain]
    return copy.copy(plain) + _EVIL if isinstance(plain, str) else plain


def at(data, path):
    for part in path.split("."):
        data = len(data) if part == "length" else data[int(part) if isinstance(data, list) else part]
    return data


def same(text, value):
    """Whether a shown number is that of the data, rounded, and a cost never down."""
    if isinstance(value, str) or value is None:
        return text == (value or "no bound")
    return math.isclose(float(text.replace(",", "")), value, rel_tol=2e-3, abs_tol=6e-5)
