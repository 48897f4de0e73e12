"""A small federation whose three members have finished a run, all in one process: for tests of reports and
certificates. Not a test."""

import asyncio
import base64
import json
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from conftest import make_parts
from ports import free_ports

from tacit.agent.certificate import signed_report
from tacit.agent.certificate.examination import collected
from tacit.agent.certificate.trained_model import model_of
from tacit.agent.federation import ROWS, Federation, Member, agreement, talk
from tacit.agent.identity import Identity
from tacit.agent.ledger_heads import Books
from tacit.agent.participant import Participant
from tacit.agent.run import take_part
from tacit.agent.store import Store
from tacit.data import Classes, Dataset, Number, Schema
from tacit.privacy import filters
from tacit.privacy.ledger import Cap, Ledger
from tacit.privacy.ledger.entries import canonical
from tacit.privacy.noise import SecureNoise
from tacit.run.budget import Budget
from tacit.run.request import Request

NAMES = ("alder", "birch", "cedar")
SIZES, FEATURES = (40, 30, 20), 3
PRIVATE = Request(method="dvp", budget=Budget(2.0, 1e-5))
EXACT = Request(method="admm", penalty=0.5, l2=0.5, loss="logistic")
RING = (("alder", "birch"), ("birch", "cedar"), ("alder", "cedar"))
SCHEMA = Schema(
    label=Classes("ill", positive=("yes",), negative=("no",)),
    columns=tuple(Number(f"x{k}", bounds=(0, 1)) for k in range(FEATURES)),
    row_norm=1.0,
)


class Crash(Exception):  # noqa: N818 (a state of affairs, not a mistake)
    """A test lets an agent die; it starts again from its files."""


@lru_cache
def _certificate(federation, *reports):
    """As text: whoever reads it may change what it read."""
    return json.dumps(collected(federation, [json.loads(report) for report in reports]))


class Finished(NamedTuple):
    """A finished run. Its folder has federation.toml, NAME.json, NAME.report.json and the identities."""

    folder: Path
    federation: Federation
    identities: dict[str, Identity]

    def certificate(self):
        """A fresh copy, which a test may change."""
        return json.loads(
            _certificate(self.federation, *((self.folder / f"{n}.report.json").read_text() for n in NAMES))
        )

    def model(self, name):
        return json.loads((self.folder / f"{name}.json").read_text())

    def signed(self, name, report):
        """A report that this member has signed, whatever it says."""
        return {"report": report, "signature": base64.b64encode(self.identities[name].sign(canonical(report))).decode()}


def finished(folder, asked, *, noise=SecureNoise, **settings):
    """Three members run to the end. In the same folder, another title is their next run, with the same ledgers."""
    identities, agreed = agree(folder, asked, **settings)
    live(folder, agreed, identities, noise)
    return Finished(folder, agreed, identities)


def agree(folder, asked, *, title="a small study", exchange=ROWS, rounds=6, edges=RING, **settings):
    """Identities, ledgers and the federation file. `rounds`: the ticks of a run without a budget."""
    identities = {
        name: Identity.load(folder / name) if (folder / name).exists() else Identity.new(name, folder) for name in NAMES
    }
    members = [
        Member(name, f"127.0.0.1:{port}", rows, identities[name].certificate)
        for name, port, rows in zip(NAMES, free_ports(3), SIZES, strict=True)
    ]
    agreed = agreement(title, members, talk(NAMES, edges), asked, SCHEMA, exchange=exchange, **settings)
    if not agreed.private:
        agreed = replace(agreed, spec=replace(agreed.spec, rounds=rounds))
    (folder / "federation.toml").write_text(agreed.to_toml())
    agreed = Federation.load(folder / "federation.toml")  # as every member reads it
    for name in NAMES if agreed.private else ():
        if (folder / f"{name}.ledger").exists():
            continue
        with Ledger.new(folder / f"{name}.ledger", population=name, cost=filters.epsilon) as ledger:
            ledger.set_cap(Cap(10.0, 1e-5))
    return identities, agreed


def live(folder, agreed, identities, noise=SecureNoise, watch=lambda name, done: None, data=None):
    """All members run, to the end or until `watch` raises something. It is called with a member and its ticks. `data`
    are the records of each member; by default they are made up."""
    with ExitStack() as stack:
        participant = partial(_participant, stack, folder, agreed, identities, noise, data=data)
        asyncio.run(_all(participant, agreed.names, folder, watch))


def _participant(stack, folder, agreed, identities, noise, i, data=None):
    name, ledger = agreed.names[i], None
    if data is None:
        made = make_parts(SIZES, d=FEATURES)
        data = [Dataset(X, y, SCHEMA.feature_names, np.arange(len(y))) for X, y in made]
    if agreed.private:
        ledger = stack.enter_context(Ledger(folder / f"{name}.ledger", cost=filters.epsilon))
    path = folder / f"{name}.{agreed.run[:8]}.store"
    store = stack.enter_context(closing(Store(path, agreed.run, name, agreed.rounds)))
    books = None if ledger is None else Books(folder / name)
    return Participant(agreed, i, identities[name], data[i], store, ledger, noise(), books=books)


async def _all(participant, names, folder, watch):
    def written(participant, weights):
        model_of(participant.federation, participant.name, weights).save(folder / f"{participant.name}.json")
        signed_report.write(participant, weights, folder / f"{participant.name}.report.json")

    async def lives(i):
        """From its files, as often as it takes."""
        while True:
            try:
                return await take_part(
                    participant(i), finished=written, watch=lambda doing, done, rounds: watch(names[i], done)
                )
            except Crash:
                continue

    await asyncio.gather(*map(lives, range(len(names))))
