"""Only what is released with noise depends on the records.

Every command runs on two files that differ in one record. Exit code, all that is printed and all that is written must
be the same, but for what stands in `NOISY` or is marked as not covered. Options are read off the command line itself: a
new one has to be added to `OPTIONS` below, with the cases that exercise it or the reason why it cannot matter.
"""

import csv
import json
import re
import shutil
from importlib import import_module

import pytest
from agent_worker import PROCESSES, command
from patience import all_ended
from ports import free_ports

from tacit import cli
from tacit.agent.federation import Federation
from tacit.agent.identity import Identity
from tacit.agent.store import Store
from tacit.cli.records import encoded_for_a_log, read_for_a_log
from tacit.data import Classes, Number, Schema, partition, read_csv
from tacit.data.cohorts import digest
from tacit.errors import InputError
from tacit.privacy.filters import epsilon
from tacit.privacy.ledger import Cap, Ledger
from tacit.run import training
from tacit.run.recipes import RECIPES

train_module = import_module("tacit.cli.train")

# Only these may differ: released with noise, or drawn at random.
NOISY = re.compile(
    r"[\w-]+\.json: weights\.\d+(\.\d+)?"  # of the model; those of several classes are lists of lists
    r"|(\w+\.report\.json: |certificate\.json: reports\.\d\.)("
    r"report\.(model|releases\.\d+\.sha256|heard\.\w+\.digest)"  # hashes of what was released
    r"|report\.ledger\.(book|head)"  # random, and a salted hash
    r"|report\.ledgers\.\w+\.newest\.(book|head|rows|signature)"  # of neighbours, at some moment
    r"|signature"  # has a random number of its own
    r"|report\.written"  # a time
    r"|report\.listening\.moved\..*)"  # computed from what was released
    r"|standard output: members\.\d\.(model|ledger\.(book|head)|written)"  # of a certificate: the same again
    r"|\w+\.html data: (written|listening\.moved\..*)"
)
# And these where the share of positives is a noisy count: the share, and what follows from it.
COUNTED = re.compile(
    r"model\.json: (schema\.label\.positive_share|loss\.offset|training\.radius|training\.parameters\.deviation)"
    r"|standard output: positive_share"
    r"|report\.html data: settings\.(radius|deviation)"
)
COUNTED_LINE = "share of positives, by a noisy count that the budget paid for: "
NOT_COVERED = re.compile("not.covered.by.the.guarantee")  # in the line, or in the name of the field
COUNTED_LINES = (COUNTED_LINE, '<tr><th scope="row">radius<', '<tr><th scope="row">deviation<')
AGO = re.compile(r"heard from \d+ s ago")  # a time
STAMP = re.compile(r"^[-\d]+T[:.\d]+Z (?=run=)")  # of a line of an agent's log
# Of a report: its data, which is compared as JSON; a time; and a list of warnings that holds nothing but who was moved.
DATA = re.compile(r'(?<=id="data">).*?(?=</script>)')
WRITTEN = re.compile(r"written on [-\d]+ [\d:]+ UTC")
MOVED = re.compile(r"<li>What [\w ]+ said was moved at .*?</li>\n")
NO_WARNINGS = re.compile(r'<section><h2>Warnings</h2>\n<div class="box warning"><ul>\n</ul></div></section>\n')
ADDRESS = re.compile(r"watch it at http://127\.0\.0\.1:\d+/[\w-]{32}/")  # a random port, and a secret

SCHEMA = """
version = 1
row_norm = 1.0
missing = "zero"
{more}
[label]
column = "died"
positive = ["yes"]
negative = ["no"]

[[columns]]
name = "age"
kind = "number"
bounds = [0, 100]

[[columns]]
name = "stay"
kind = "number"
bounds = [0, 50]

[[columns]]
name = "ward"
kind = "category"
categories = ["surgery", "medicine"]
"""
SEVERAL = '"ward"\nkind = "multiclass"\nclasses = ["surgery", "medicine", "eyes"]'
NUMBER = '"stay"\nkind = "number"\nbounds = [0, 50]'
SITES = '\n[sites]\ncolumn = "hospital"\nnames = ["cedar", "alder", "birch"]\n'
SCHEMAS = {
    "schema.toml": SCHEMA.format(more="intercept = true\n"),
    "listed.toml": SCHEMA.format(more="intercept = true\n" + SITES),
    "unknown.toml": SCHEMA.format(more='intercept = true\nunknown = "zero"\nids = ["patient"]\n'),
    "long-rows.toml": SCHEMA.format(more="").partition('[[columns]]\nname = "ward"')[0].replace("row_norm = 1.0\n", ""),
}


def of_another_label(label, column):
    """The schema with this label in place of `died`, and without the column that is the label now."""
    head, *columns = SCHEMAS["schema.toml"].split("[[columns]]")
    kept = [part for part in columns if f'name = "{column}"' not in part]
    two = '"died"\npositive = ["yes"]\nnegative = ["no"]'
    assert two in head
    return "[[columns]]".join([head.replace(two, label), *kept])


SCHEMAS |= {"several.toml": of_another_label(SEVERAL, "ward"), "number.toml": of_another_label(NUMBER, "stay")}
# A run as data: three noisy steps, whose cost does not depend on the members.
RUN = """
rounds = 3
l2 = 1e-05
radius = 64.0
graph = { kind = "ring", agents = 3 }
method = { kind = "gradient-descent", step = 0.5, mixing = 0.3, budget = { kind = "gaussian", multiplier = 30.0 } }
loss = { kind = "huber", width = 1.0 }
budget = { epsilon = 1.0, delta = 1e-03 }
"""
HOSPITALS = {"alder": 24, "birch": 16, "cedar": 12}

# One record, and its replacements.
RECORD = {"age": "61", "stay": "5", "ward": "surgery", "hospital": "alder", "died": "yes"}
CHANGES = {
    "its label is flipped": {"died": "no"},
    "its number is another": {"age": "33"},
    "its category is another": {"ward": "medicine"},
    "its number lies outside the bounds": {"age": "999", "stay": "-1"},
    "its value is missing": {"age": "", "ward": "?"},
}
ANOTHER = {"died": "no", "age": "999", "stay": "50", "ward": ""}
ELSEWHERE = {"of another site": {"hospital": "cedar"}, "of a new site": {"hospital": "dogwood"}}


def records(change=None):
    """The same made-up records every time, the ninth as it is or replaced."""
    rows = []
    for name, count in HOSPITALS.items():
        for k in range(count):
            age, stay, ward = (13 * k + len(rows)) % 60, (7 * k) % 20, ("surgery", "medicine")[k % 3 == 0]
            died = "yes" if age + 20 * (ward == "surgery") > 45 else "no"
            rows.append({"age": str(age), "stay": str(stay), "ward": ward, "hospital": name, "died": died})
    rows[8] = RECORD | (change or {})
    return rows


def write(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, RECORD)
        writer.writeheader()
        writer.writerows(rows)


def flat(name, plain):
    """Every number and string of JSON, by its path."""
    if isinstance(plain, dict | list):
        inside = plain.items() if isinstance(plain, dict) else enumerate(plain)
        mark = " " if name.endswith(":") else "."
        parts = [flat(f"{name}{mark}{key}", value) for key, value in inside]
        return {f"{name}{mark}": f"{len(parts)} entries"} | {k: v for part in parts for k, v in part.items()}
    return {name: plain}


def unmarked(text):
    """The lines, without those that are marked as not covered and without what is indented below a marked heading."""
    kept, below = [], False
    for line in text.splitlines():
        marked = bool(NOT_COVERED.search(line))
        below = (marked and line.endswith(":")) or (below and line.startswith("  "))
        kept += [] if marked or below else [STAMP.sub("", AGO.sub("heard from ... s ago", line))]
    return kept


def seen(code, out, err, folder, inputs, counted=False):
    """Everything that the user of a command sees, without what may differ; `counted` says that a noisy count was."""
    found = {"exit code": code}
    texts = {"standard output": out, "standard error": err}
    for path in sorted(folder.iterdir()):
        if path.name not in inputs and path.is_file():
            texts[path.name] = path.read_bytes().decode(errors="surrogateescape")
    for name in [name for name in texts if name.endswith(".html")]:
        data = DATA.search(texts[name])[0]
        texts[f"{name} data"], text = data, texts[name].replace(data, "")
        texts[name] = NO_WARNINGS.sub("", MOVED.sub("", WRITTEN.sub("written", text)))
    for name, text in texts.items():
        try:
            plain = json.loads(text)
            if isinstance(plain, dict):
                uncovered = plain.get("not_covered_by_the_guarantee", [])
                plain = {key: value for key, value in plain.items() if key not in uncovered}
            found |= flat(f"{name}:", plain)
        except ValueError:
            lines = unmarked(ADDRESS.sub("watch it", text))
            found[name] = "\n".join(line for line in lines if not (counted and line.startswith(COUNTED_LINES)))
    return {
        name: said
        for name, said in found.items()
        if not (NOISY.fullmatch(name) or NOT_COVERED.search(name) or (counted and COUNTED.fullmatch(name)))
    }


def differences(one, other):
    return {name: (one.get(name), other.get(name)) for name in one | other if one.get(name) != other.get(name)}


@pytest.fixture
def run(tacit, tmp_path, monkeypatch):
    """Runs a command on the records in a separate folder, and gives what the user sees."""

    def in_a_folder(change, args):
        folder = tmp_path / "folder"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, text in SCHEMAS.items():
            (folder / name).write_text(text)
        (folder / "run.toml").write_text(RUN)
        (folder / "edges.csv").write_text("from,to\nalder,birch\nbirch,cedar\n")
        (folder / "measured.csv").write_text("alpha,loss\n0.01,0.56\n0.05,0.45\n0.1,0.42\n0.5,0.4\n1,0.4\n")
        write(folder / "records.csv", records(change))
        for each in (tmp_path / "identities").glob("*"):
            shutil.copytree(each, folder / each.name)
        monkeypatch.chdir(folder)
        if "--ledger" in args:  # it stays with the records, like them
            with Ledger.new(folder / "records.ledger", population="patients", cost=epsilon) as ledger:
                ledger.set_cap(Cap(2.0, 1e-3))
        inputs = {path.name for path in folder.iterdir()} | {"records.ledger-wal", "records.ledger-shm"}
        return seen(*tacit(*args), folder, inputs, counted="noisy" in args)

    return in_a_folder


def neighbours(said):
    """The replacements that a statement covers: those of another site, unless it says that a record stays within."""
    statement = str(said.get("model.json: privacy.statement", ""))
    if "of the same site" in statement:
        return {"of the same site": ANOTHER}
    return {name: ANOTHER | change for name, change in ELSEWHERE.items()}


def leaks(run, args, changes=None):
    """What depends on the one record: {replacement: what differs}."""
    first = run(None, args)
    assert first["exit code"] == 0, first
    found = {k: differences(first, run(change, args)) for k, change in (changes or neighbours(first)).items()}
    return {name: differing for name, differing in found.items() if differing}


# Every option of every command, with cases that exercise it, or why it cannot matter.
TRAIN = ["train", "records.csv", "--schema", "schema.toml", "--epsilon", 1, "--delta", 1e-3, "--method", "one-shot"]
PLAN = ["plan", "dvp", "--rows", "24,16,12", "--epsilon", 1]
MEMBERS = [
    word
    for k, (name, rows) in enumerate(HOSPITALS.items())
    for word in ("--member", f"{name},127.0.0.1:{7441 + k},{rows},{name}/certificate.pem")
]
NEW = ["federation", "new", "--title", "spring", "--schema", "schema.toml", *MEMBERS]
PRIVATE = [*NEW, "--epsilon", 1, "--delta", 1e-3, "--method", "one-shot"]
SHARED = [*NEW, "--epsilon", 1, "--delta", 1e-3, "--secret-shared"]
SEVERAL = (["--site", "hospital"], ["--agents", 3, "--graph", "complete", "--holdout", 0, "--json"])
NOISY_SHARE = ["--positive-share", "noisy"]
ALL = "every case has it"
REFUSED = "--epsilon refuses it before the file is read"
EMBEDDED = "reads no file: the embedded records are public"
AGENTS = "in test_agents"
WHERE = "where the work is done; the results are the same: tests/simulation/test_shards.py, tests/engines"
KEYS = "about keys and members: no command of these reads a record"
STORE = "the store stays with the records"
OWN = ["--penalty", 1, "--rounds", 3]  # a run with own settings
TRAIN_OWN = [[*TRAIN, *who, "--method", "dvp", *OWN] for who in (["--site", "hospital"], ["--agents", 3, "--json"])]
GROWING = 'penalty={kind="geometric",first=1,ratio=1.04}'

OPTIONS = {
    ("train",): {
        **dict.fromkeys(("engine", "shards", "address"), WHERE),
        "file": ALL,
        "label": [[*TRAIN, "--label", "died"]],
        "site": [[*TRAIN, "--site", "hospital"]],
        "agents": [[*TRAIN, "--agents", 3], [*TRAIN, "--agents", 7]],
        "schema": [
            [*TRAIN, "--schema", "listed.toml", "--site", "hospital"],
            [*TRAIN, "--schema", "listed.toml", "--agents", 3],
        ],
        "graph": [
            [*TRAIN, *who, "--graph", graph]
            for who in (["--site", "hospital"], ["--agents", 3])
            for graph in ("star", "path", "complete", "random:3")
        ]
        + [[*TRAIN, "--site", "hospital", "--graph", "edges.csv"]],
        "epsilon": ALL,
        "delta": [[*TRAIN, "--site", "hospital", "--delta", 0.01]],  # the warning that it is large for so many rows
        "allow_delta": [[*TRAIN, "--site", "hospital", "--delta", 0.2, "--allow-delta", "a test"]],
        "ledger": [
            [*TRAIN, "--site", "hospital", "--ledger", "records.ledger"],
            [*TRAIN, "--agents", 3, "--method", "mr-admm", *NOISY_SHARE, "--ledger", "records.ledger", "--json"],
        ],
        "old_method": [[*TRAIN, "--algorithm", "mr-admm", "--agents", 3]],
        "method": [
            [*TRAIN, "--method", method, *how, *(["--colluders", 1] if recipe.traits.totals else [])]
            for method, recipe in RECIPES.items()
            for how in ([["--agents", 1]] if recipe.traits.alone else SEVERAL if recipe.usual else SEVERAL[:1])
        ],
        "colluders": [
            [*TRAIN, *who, "--method", "shared-descent", "--colluders", 1, *how]
            for who in (["--site", "hospital"], ["--agents", 5])
            for how in ([], ["--json"], ["--positive-share", "noisy"])
        ],
        "dropouts": [[*TRAIN, "--agents", 5, "--method", "shared-descent", "--colluders", 2, "--dropouts", 1]],
        "positive_share": [
            [*TRAIN, "--method", method, *who, "--positive-share", share, *how]
            for method in ("mr-admm", "gradient-descent")
            for who in (["--site", "hospital"], ["--agents", 3])
            for share, how in ((0.3, []), ("noisy", []), ("noisy", ["--json"]))
        ],
        "class_weight": [
            [*TRAIN, "--agents", 3, "--class-weight", "1,5"],
            [*TRAIN, "--agents", 3, "--positive-share", 0.3, "--class-weight", "balanced", "--json"],
            [*TRAIN, "--method", "mr-admm", "--positive-share", "noisy", "--class-weight", "1,5"],
        ],
        "holdout": [
            [*TRAIN, *who, "--holdout", share, *how]
            for who in (["--site", "hospital"], ["--agents", 3])
            for share in (0, 0.5)
            for how in ([], ["--json"])
        ],
        "robust": [[*TRAIN, "--agents", 4, "--robust", kind] for kind in ("clipping", "trimmed", "median")],
        "hostile": [
            [*TRAIN, "--agents", 4, "--hostile", f"{kind}:1"] for kind in ("flip", "constant", "labels", "drift")
        ],
        "seed": [[*TRAIN, "--agents", 4, "--graph", "random:4", "--seed", 5]],
        "out": [[*TRAIN, "--out", "other.json"]],
        "report": [
            [*TRAIN, *how, "--report", "report.html"]
            for how in (
                ["--site", "hospital"],
                ["--agents", 3, "--holdout", 0.5],
                ["--agents", 5, "--method", "shared-descent", "--colluders", 1],
                ["--agents", 3, "--method", "mr-admm", "--positive-share", "noisy", "--json"],
                ["--agents", 4, "--robust", "clipping", "--hostile", "labels:1"],
                ["--agents", 3, "--delta", 0.01],
            )
        ],
        "json": [[*TRAIN, "--site", "hospital", "--json"]],
        **dict.fromkeys(("penalty", "rounds"), TRAIN_OWN),
        "loss": [[*each, "--loss", "huber"] for each in TRAIN_OWN],
        "l2": [[*each, "--l2", 0.1] for each in TRAIN_OWN],
        "scale": [[*each, "--scale", 2] for each in TRAIN_OWN],
        "law": [[*each, "--law", "pure"] for each in TRAIN_OWN],
        "set": [
            [*TRAIN, "--site", "hospital", "--method", "r-admm", "--set", "gamma=0.3", "--rounds", 4],
            [*TRAIN, "--agents", 3, "--method", "m-admm", "--set", GROWING, "--rounds", 4, "--json"],
        ],
        "spec": [
            ["train", "records.csv", "--schema", "schema.toml", "--spec", "run.toml", *how]
            for how in (["--site", "hospital"], ["--json"], ["--report", "report.html"])
        ],
        **dict.fromkeys(("skew", "tolerance"), REFUSED),
    },
    ("plan",): {
        "method": ALL,
        "rows": ALL,
        "agents": [["plan", "dvp", "--rows", 20, "--agents", 3, "--epsilon", 1]],
        "graph": [[*PLAN, "--graph", "path"]],
        "epsilon": ALL,
        "delta": [[*PLAN, "--delta", 1e-3]],
        "allow_delta": [[*PLAN, "--delta", 0.1, "--allow-delta", "a test"]],
        "colluders": [["plan", "--rows", 20, "--epsilon", 1, "--colluders", 2]],
        "dropouts": [["plan", "--rows", 20, "--epsilon", 1, "--colluders", 1, "--dropouts", 1]],
        "penalty": [[*PLAN, *OWN]],
        "robust": [["plan", "--rows", 20, "--epsilon", 1, "--robust", "clipping"]],
        "set": [
            ["plan", "mr-admm", "--rows", 20, "--set", "alpha=1", "--set", GROWING],
            ["plan", "r-admm", "--rows", 20, "--set", "alpha=1", "--set", "gamma=0.2"],
        ],
        "spec": [["plan", "--rows", "24,16,12", "--spec", "run.toml"]],
        "spec_out": [[*PLAN, "--spec-out", "written.toml"]],
        "rounds": [[*PLAN, *OWN, "--rounds", 5]],
        "loss": [[*PLAN, *OWN, "--loss", "huber"]],
        "l2": [[*PLAN, *OWN, "--l2", 0.1]],
        "scale": [[*PLAN, *OWN, "--scale", 2]],
        "law": [[*PLAN, *OWN, "--law", "pure"]],
        "theory": [["plan", "r-admm", "--set", "alpha=100", "--scale", 1750, "--theory"]],
        "dimension": [[*PLAN, "--theory", "--dimension", 5]],
        "schema": [[*PLAN, "--schema", "schema.toml"]],
        "reference": [[*PLAN, "--theory", "--reference", 5]],
        "accuracy": [[*PLAN, "--theory", "--accuracy", 0.2]],
        "failure": [[*PLAN, "--theory", "--failure", 0.1]],
        "design": [[*PLAN, "--design", "measured.csv"]],
        "largest_alpha": [[*PLAN, "--design", "measured.csv", "--largest-alpha", 2]],
        "worst_loss": [[*PLAN, "--design", "measured.csv", "--worst-loss", 0.5]],
        "floor": [[*PLAN, "--design", "measured.csv", "--floor", 0.3]],
        "utility": [[*PLAN, "--design", "measured.csv", "--utility", "0.05,6,9,1"]],
        "json": [[*PLAN, "--json"]],
    },
    ("federation", "new"): {
        "member": ALL,
        "schema": [[*PRIVATE, "--schema", "listed.toml"]],
        "title": ALL,
        "graph": [[*PRIVATE, "--graph", "path"]],
        "epsilon": [PRIVATE],
        "delta": [[*PRIVATE, "--delta", 0.01]],
        "allow_delta": [[*PRIVATE, "--delta", 0.1, "--allow-delta", "a test"]],
        "method": [[*PRIVATE, "--method", "pi-admm"]],
        "penalty": [[*NEW, "--penalty", 1]],
        "l2": [[*NEW, "--l2", 1]],
        "loss": [[*NEW, "--loss", "huber"]],
        "rounds": [[*NEW, "--rounds", 7]],
        "scale": [[*NEW, "--scale", 2]],
        "law": [[*PRIVATE, "--method", "dvp", *OWN, "--law", "pure"]],
        "set": [[*PRIVATE, "--method", "dvp", "--set", "penalty=1", "--rounds", 3]],
        "spec": [[*NEW, "--spec", "run.toml"]],
        "secret_shared": [[*PRIVATE, "--secret-shared"]],
        "colluders": [[*SHARED, "--colluders", 1]],
        "dropouts": [[*SHARED, "--colluders", 1, "--dropouts", 1, "--go-on-after", 60]],
        "robust": [[*PRIVATE, "--robust", "clipping"]],
        "go_on_after": [[*PRIVATE, "--go-on-after", 60]],
        "quorum": [[*PRIVATE, "--go-on-after", 60, "--quorum", 2]],
        "out": [[*PRIVATE, "--out", "other.toml"]],
        "predecessor": KEYS,
    },
    ("federation", "show"): {"file": AGENTS, "predecessor": KEYS},
    ("federation", "renew"): dict.fromkeys(("file", "identity", "days", "overlap_days", "out"), KEYS),
    ("federation", "accept"): dict.fromkeys(("file", "statement", "identity"), KEYS),
    ("federation", "revoke"): dict.fromkeys(("file", "member", "identity", "why"), KEYS),
    ("federation", "verify"): {"file": AGENTS, "report": AGENTS},
    ("federation", "status"): dict.fromkeys(("file", "identity", "store", "json"), KEYS),
    ("federation", "without"): dict.fromkeys(("file", "report", "identity"), KEYS),
    ("certificate", "make"): dict.fromkeys(("report", "federation", "out"), AGENTS),
    ("certificate", "verify"): dict.fromkeys(("file", "model", "ledger", "report", "json"), AGENTS),
    ("federation", "demo"): dict.fromkeys(("agents", "epsilon", "colluders", "out", "page"), EMBEDDED),
    ("agent", "run"): dict.fromkeys(
        ("federation", "identity", "data", "ledger", "out", "store", "listen", "patience", "exact", "report", "page"),
        AGENTS,
    )
    | dict.fromkeys(("log_format", "log_level"), "agent/monitoring/test_logs.py looks for planted values in them")
    | {"metrics": "for the own organisation alone: docs/deploy.md"}
    | dict.fromkeys(("engine", "address"), WHERE),
    ("agent", "status"): dict.fromkeys(("federation", "identity", "store", "json"), AGENTS)
    | dict.fromkeys(("folder", "watch"), "the same for each member, again and again"),
    ("agent", "doctor"): dict.fromkeys(
        ("federation", "identity", "data", "ledger", "store", "listen", "json"), "for the own organisation alone"
    ),
    ("agent", "backup"): dict.fromkeys(("federation", "identity", "out", "store"), STORE),
    ("agent", "restore"): dict.fromkeys(("federation", "identity", "file", "store"), STORE),
}


def commands_below(*path):
    """All commands, each with its options."""
    command = cli.load(path[0])
    for name in path[1:]:
        command = command.commands[name]
    if not hasattr(command, "commands"):
        return {path: {each.name for each in command.params} - {"help"}}
    return {k: v for name in command.commands for k, v in commands_below(*path, name).items()}


GROUPS = ("train", "plan", "federation", "certificate", "agent")


def test_every_option_is_accounted_for():
    there = {k: v for group in GROUPS for k, v in commands_below(group).items()}
    assert there == {path: set(options) for path, options in OPTIONS.items()}


def cases(*commands):
    found = [
        (path, option, case)
        for path in commands
        for option, how in OPTIONS[path].items()
        if not isinstance(how, str)
        for case in how
    ]
    return [pytest.param(case, id=f"{' '.join(path)} {option} {k}") for k, (path, option, case) in enumerate(found)]


@pytest.mark.parametrize("args", cases(("train",)))
def test_training(run, args):
    assert leaks(run, args) == {}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("who", [["--site", "hospital"], ["--agents", 3]], ids=["site", "agents"])
def test_training_on_another_record(run, change, who):
    assert leaks(run, [*TRAIN, *who], {"": change}) == {}


@pytest.mark.parametrize("how", [["--site", "hospital"], ["--agents", 3, "--json"]], ids=["site", "agents"])
@pytest.mark.parametrize(
    ("schema", "method", "changes"),
    [
        (schema, method, changes)
        for schema, methods, changes in (
            ("several", [name for name, recipe in RECIPES.items() if recipe.traits.multiclass], {"ward": "medicine"}),
            (
                "number",
                ["pvp", "mr-admm", "one-shot"],
                {"stay": "999"},
            ),  # it is clipped, and the count of those is marked
        )
        for method in methods
    ],
)
def test_training_of_another_kind_of_label(run, schema, method, changes, how):
    """The label itself is replaced, and a feature."""
    shared = ["--colluders", 1] if RECIPES[method].traits.totals else []
    args = [*TRAIN, "--schema", f"{schema}.toml", "--method", method, *shared, *how]
    assert leaks(run, args, {"": changes | {"age": "33"}}) == {}


def test_only_what_is_marked_is_left_out():
    text = "on held-out rows (not covered by the guarantee):\n  error 0.1\nrounds 3\nother numbers:\n  error 0.2"
    assert unmarked(text) == ["rounds 3", "other numbers:", "  error 0.2"]


@pytest.mark.parametrize("who", [["--site", "hospital"], ["--agents", 3]], ids=["site", "agents"])
def test_a_category_that_nobody_knows(run, who):
    """With unknown = "zero" a run with it looks like any other; with "refuse" everybody sees that there is no run."""
    change = {"": {"ward": "cardiology"}}
    assert leaks(run, [*TRAIN, "--schema", "unknown.toml", *who], change) == {}
    assert leaks(run, [*TRAIN, *who], change)[""]["exit code"] == (0, 2)


@pytest.mark.parametrize("args", cases(("plan",)))
def test_plans(run, args):
    assert leaks(run, args, {"all at once": ANOTHER | {"hospital": "dogwood"}}) == {}


@pytest.fixture
def identities(tmp_path):
    (tmp_path / "identities").mkdir()
    for name in HOSPITALS:
        Identity.new(name, tmp_path / "identities")


@pytest.mark.parametrize("args", cases(("federation", "new")))
def test_federations(run, identities, args):
    assert leaks(run, args, {"all at once": ANOTHER | {"hospital": "dogwood"}}) == {}


@pytest.mark.parametrize("option", [name for name, how in OPTIONS["train",].items() if how == REFUSED])
def test_what_is_refused_is_refused_unread(tacit, option):
    code, out, err = tacit("train", "nowhere.csv", "--schema", "nowhere.toml", "--epsilon", 1, f"--{option}", 1)
    assert (code, out) == (2, "")
    assert option in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("option", ["penalty", "loss", "l2", "rounds", "scale"])
def test_settings_without_a_method_are_refused_unread(tacit, option):
    given = "logistic" if option == "loss" else 1
    code, out, err = tacit("train", "nowhere.csv", "--schema", "nowhere.toml", "--epsilon", 1, f"--{option}", given)
    assert (code, out) == (2, "")
    assert f"leave out {option}, or name the method" in err
    assert err.count("\n") == 1


def test_the_statement_says_what_is_public(run):
    def statement(*args):
        return run(None, [*TRAIN, *args])["model.json: privacy.statement"]

    against = ", against all other members together"
    assert statement().endswith(f"for every record, one record replaced by another{against}")
    read = "of the same site (the names of the sites, which were read from the records, and their numbers of rows are "
    assert statement("--site", "hospital").endswith(f"one record replaced by another {read}public){against}")
    listed = statement("--site", "hospital", "--schema", "listed.toml")
    assert listed.endswith(f"another of the same site (the number of rows of each site is public){against}")


def test_noise_is_fresh_wherever_records_may_show(run, tmp_path):
    """What the comparison leaves out changes from run to run: it is not a function of the records."""
    models = []
    for _ in range(2):
        run(None, TRAIN)
        models.append(json.loads((tmp_path / "folder" / "model.json").read_text())["weights"])
    assert all(a != b for a, b in zip(*models, strict=True))


# Planted leaks, which the comparison has to see


def test_skew_would_be_seen(run, monkeypatch):
    def skewed(table, data, division, seed, sites=None):
        return partition.dirichlet(data.y, 3, 0.5, seed), ["a", "b", "c"]

    monkeypatch.setattr(train_module, "share_out", skewed)
    found = leaks(run, TRAIN, {"flipped": {"died": "no"}})["flipped"]
    assert any(re.fullmatch(r"model\.json: training\.agents\.\d\.rows", name) for name in found)


@pytest.mark.parametrize("schema", ["schema.toml", "listed.toml"])
def test_a_statement_without_the_site_would_be_seen(run, monkeypatch, schema):
    monkeypatch.setattr(training, "_within", lambda schema: "")
    found = leaks(run, [*TRAIN, "--schema", schema, "--site", "hospital"])
    assert "model.json: training.agents.0.rows" in found["of another site"]
    assert any("dogwood" in str(differing) for differing in found["of a new site"].values())


def test_a_row_that_is_too_long_would_be_seen(run, monkeypatch):
    """Whether a run is refused must follow from the schema, not from the records."""
    args = [*TRAIN, "--schema", "long-rows.toml", "--agents", 3]
    assert "write 1.0" in run(None, args)["standard error"]
    monkeypatch.setattr(train_module, "require_public", lambda *_, **__: None)  # before the records are read, and after
    assert leaks(run, args, {"long": {"age": "100", "stay": "50"}})["long"]["exit code"] == (0, 2)


def test_a_count_without_its_mark_would_be_seen(run, monkeypatch):
    monkeypatch.setattr(train_module, "NOT_COVERED", "")
    assert "standard error" in leaks(run, TRAIN, {"clipped": {"age": "999"}})["clipped"]


# Agents


def take_part(folder, addresses):
    """All three agents, each in a process of its own: what they print, and the sizes of what they send."""
    agreed, shown, processes = Federation.load(folder / "federation.toml"), {}, {}
    for name in HOSPITALS:
        with Ledger.new(folder / f"{name}.ledger", population=name, cost=epsilon) as ledger:
            ledger.set_cap(Cap(1.0, 1e-3))
        words = ["agent", "run", "--federation", "federation.toml", "--identity", name, "--data", f"{name}.csv"]
        words += ["--ledger", f"{name}.ledger", "--out", f"{name}.json", "--store", f"{name}.store"]
        words += ["--listen", addresses[name], "--patience", "600", "--report", f"{name}.html", "--page", "127.0.0.1:0"]
        processes[name] = PROCESSES.Process(target=command, args=(folder, name, *words))
        processes[name].start()
    all_ended(processes.values(), 120)
    for name, process in processes.items():
        out, err = ((folder / f"{name}.{kind}") for kind in ("out", "err"))
        shown[name] = process.exitcode, out.read_text(), err.read_text()
        process.kill()
        store = Store(folder / f"{name}.store", agreed.run, name, agreed.rounds)
        sent = [(tick, len(message), str(event)) for tick, message, event in store.releases()]
        store.close()
        (folder / f"{name}.sent.json").write_text(json.dumps(sent))
    return shown


def test_agents(tacit, identities, tmp_path, monkeypatch):
    """A federation runs with the records of alder as they are, and with one of them replaced. Store and ledger are left
    out: they stay with the records (docs/deploy.md)."""
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(HOSPITALS, free_ports(3), strict=True)}
    members = [
        word
        for name, rows in HOSPITALS.items()
        for word in ("--member", f"{name},{addresses[name]},{rows},identities/{name}/certificate.pem")
    ]
    (tmp_path / "schema.toml").write_text(SCHEMAS["schema.toml"])
    agree = ["federation", "new", "--title", "spring", "--schema", "schema.toml", *members]
    code, _, err = tacit(*agree, "--epsilon", 1, "--delta", 1e-3, "--method", "one-shot")
    assert code == 0, err
    found = []
    for change in (None, {**ANOTHER, "hospital": "alder"}):
        folder = tmp_path / f"folder{len(found)}"
        folder.mkdir()
        shutil.copy(tmp_path / "federation.toml", folder)
        for name in HOSPITALS:
            shutil.copytree(tmp_path / "identities" / name, folder / name)
            write(folder / f"{name}.csv", [row for row in records(change) if row["hospital"] == name])
        inputs = {path.name for path in folder.iterdir()}
        shown = take_part(folder, addresses)
        assert [code for code, _, _ in shown.values()] == [0, 0, 0], shown
        monkeypatch.chdir(folder)
        for name in HOSPITALS:
            agent = ("--federation", "federation.toml", "--identity", name)
            shown[f"{name} status"] = tacit("agent", "status", *agent, "--store", f"{name}.store")
            shown[f"{name} verify"] = tacit("federation", "verify", "federation.toml", f"{name}.report.json")
            refused = tacit("agent", "run", *agent, "--data", f"{name}.csv", "--exact")
            assert refused[0] == 2
            shown[f"{name} exact"] = refused
        reports = [f"{name}.report.json" for name in HOSPITALS]
        shown["make"] = tacit("certificate", "make", "--federation", "federation.toml", *reports)
        code, out, err = tacit("certificate", "verify", "certificate.json", "--model", "alder.json")
        code, plain, err = tacit("certificate", "verify", "certificate.json", "--model", "alder.json", "--json")
        # How many members end with the same bits, and the digest of these, is computed from what was released.
        kept_lines = [line for line in out.splitlines() if "signed" not in line]
        plain = json.loads(plain)
        plain["proved"] = [line for line in plain["proved"] if "signed" not in line]
        shown["certificate"] = code, json.dumps(plain), "\n".join(kept_lines)
        code, out, _ = tacit("agent", "status", *agent, "--store", "cedar.store", "--json")
        shown["json"] = code, json.dumps(json.loads(out) | {"seconds_since": None, "alive": None}), ""  # times
        shown["show"] = tacit("federation", "show", "federation.toml")
        kept = {f"{name}.{what}" for name in HOSPITALS for what in ("store", "ledger")}
        kept |= {f"{file}{end}" for file in kept for end in ("-wal", "-shm", "-head", "-state0", "-state1")}
        kept |= {f"{name}.{kind}" for name in HOSPITALS for kind in ("out", "err")}  # are in `shown`
        found.append({f"{k}: {n}": s for k, v in shown.items() for n, s in seen(*v, folder, inputs | kept).items()})

        # The comparison above leaves out the salted hash of the ledger. Here: nothing else of the ledger is written.
        with Ledger(folder / "alder.ledger", cost=epsilon) as ledger:
            secrets = [digest(read_csv(folder / "alder.csv")), *(entry.hash for entry in ledger.entries())]
        written = "".join(path.read_text() for path in (*folder.glob("*.json"), *folder.glob("*.html"))) + str(shown)
        assert not [secret for secret in secrets if secret in written]
    assert differences(*found) == {}
    assert any("alder.report.json: report.releases.0.event" in name for name in found[0])
    assert any("alder.html data: epsilon" in name for name in found[0])


def test_an_unmarked_error_in_a_report_would_be_seen(run, monkeypatch):
    data_of = import_module("tacit.report.run_facts")
    honest = data_of.privately

    def leaking(trained, *given):
        return honest(trained, *given) | {"warnings": [f"the error is {trained.measured.miss}"]}

    monkeypatch.setattr(data_of, "privately", leaking)
    monkeypatch.setattr(training.Model, "measured", lambda model, data: type("Measured", (), {"miss": data.y.sum()}))
    monkeypatch.setattr(train_module, "as_plain", lambda measured: {})
    monkeypatch.setattr("tacit.report.metrics_in_words.in_words", lambda *_, **__: [])
    args = [*TRAIN, "--agents", 3, "--holdout", 0.9, "--report", "report.html"]
    found = leaks(run, args, {"flipped": {"died": "no"}})["flipped"]
    assert {"report.html", "report.html data: warnings.0"} <= found.keys()


@pytest.mark.parametrize("text", ["47113,yes\n1,no\n", "47113,47113\n1,no\n", "47113;yes\n1;no\n"])
def test_a_log_never_shows_the_first_line_of_a_file_without_a_header(tmp_path, text):
    """A file that was cut into parts has a header in the first part only."""
    schema = Schema(label=Classes("y", ("yes",), ("no",)), columns=(Number("x", (0, 1)),), row_norm=1.0)
    (tmp_path / "part-2.csv").write_text(text)
    with pytest.raises(InputError, match=r"first line of part-2\.csv must name the columns") as caught:
        encoded_for_a_log(read_for_a_log(str(tmp_path / "part-2.csv")), schema)
    assert "47113" not in str(caught.value)


@pytest.mark.parametrize("cells", ["x,y\n47113abc,yes\n1,no\n", "x,y\n1,47113\n1,no\n", "x,y\n0.5,yes\n,47113\n"])
def test_a_log_never_shows_a_value_that_does_not_fit(tmp_path, cells):
    """But where it is, and which rule it breaks."""
    schema = Schema(label=Classes("y", ("yes",), ("no",)), columns=(Number("x", (0, 1)),), row_norm=1.0)
    (tmp_path / "records.csv").write_text(cells)
    with pytest.raises(InputError) as caught:
        encoded_for_a_log(read_for_a_log(str(tmp_path / "records.csv")), schema)
    assert "47113" not in str(caught.value)
    assert re.search(r"line \d|row", str(caught.value))
