"""Reports and the page to watch in a real browser: no errors, nobody else is asked, the numbers are those of the data.

It is skipped only where there is no browser; with TACIT_BROWSER=required it fails there, too (.ci/run).
"""

import json
import os
import sys
from pathlib import Path

import agent_network
import pytest
from agent_worker import NAMES
from documents import DOCUMENTS, at, evil, same

from tacit.agent.monitoring.page import Page
from tacit.agent.monitoring.status import Watched

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "tools"))
import browser

identities, network = agent_network.identities, agent_network.network  # fixtures
NARROW = 400
WIDE = "document.scrollingElement.scrollWidth"
SHOWN = "[...document.querySelectorAll('[data-of]')].map(each => [each.dataset.of, each.textContent])"


@pytest.fixture(scope="module")
def tab():
    if browser.found() is None:
        assert os.environ.get("TACIT_BROWSER") != "required", "there is no browser"
        pytest.skip("there is no browser")
    with browser.page() as page:
        yield page


@pytest.fixture
def opened(tab):
    """Opens an address, and checks at the end that nobody complained and nobody else was asked."""
    before, allowed = (len(tab.console), len(tab.requests)), []

    def open_it(address):
        allowed.append(address)
        tab.resize(900)
        tab.open(address)
        return tab

    yield open_it
    assert tab.console[before[0] :] == []
    asked = set(tab.requests[before[1] :])
    assert asked
    assert not [each for each in asked if not any(each.startswith(start) for start in allowed)]


@pytest.mark.parametrize("hostile", [False, True], ids=["honest", "hostile"])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_report(opened, tmp_path, name, hostile):
    make, plain = DOCUMENTS[name]
    (tmp_path / "report.html").write_text(make(evil(plain) if hostile else plain), encoding="utf-8")
    tab = opened((tmp_path / "report.html").as_uri())
    data = json.loads(tab.evaluate("document.getElementById('data').textContent"))
    shown = tab.evaluate(SHOWN)
    assert len(shown) >= 3
    assert not [(path, text) for path, text in shown if not same(text, at(data, path))]
    assert tab.evaluate("document.querySelectorAll('img, script:not([type])').length") == 0
    for dark in (False, True):
        tab.resize(NARROW, dark=dark)
        assert tab.evaluate(WIDE) <= NARROW
    assert tab.pdf().startswith(b"%PDF")


def test_a_report_of_a_real_run(opened, tacit, patients, tmp_path):
    """What the command prints as JSON is what the page shows."""
    code, out, err = tacit(
        *("train", patients, "--label", "died", "--site", "hospital", "--json", "--report", "report.html")
    )
    assert code == 0, err
    printed = json.loads(out)
    tab = opened((tmp_path / "report.html").as_uri())
    shown = dict(tab.evaluate(SHOWN))
    assert float(shown["rounds"].replace(",", "")) == printed["rounds"]
    assert float(shown["bytes"].replace(",", "")) == printed["bytes"]
    assert same(shown["consensus_error"], printed["consensus_error"])
    assert f"error {printed['error']:.4f}" in tab.evaluate("document.body.innerText")


@pytest.fixture
def serve():
    made = []

    def start(look):
        made.append(Page("127.0.0.1:0", look))
        return made[-1]

    yield start
    for each in made:
        each.close()


def test_the_page_of_a_federation(opened, serve, network):
    """Five agents in processes of their own: the page shows how they go on, and says how it ended."""
    net = network("totals")
    watched = [
        Watched(name, net.federation, net.path(i), net.folder / f"{name}.ledger", lambda i=i: net.log(i).splitlines())
        for i, name in enumerate(NAMES)
    ]
    page = serve(lambda: {"title": "spring <b>study</b>", "members": [each.look() for each in watched]})
    tab = opened(page.address)
    assert tab.until("[...document.querySelectorAll('.state')].map(each => each.textContent).join()") == ",".join(
        ["not started"] * 5
    )
    with net.held():
        net.start(*range(5), slow=0.01)
        tab.until("document.querySelectorAll('progress').length == 15 && seen.members.every(one => one.status.alive)")
        first = tab.evaluate("seen.members[0].status.round")
    tab.until(f"seen.members.every(one => one.status.round > {first})")
    assert [net.ended(i) for i in range(5)] == [0] * 5
    tab.until("seen.members.every(one => one.status.doing === 'finished')")
    shown, seen = dict(tab.evaluate(SHOWN)), tab.evaluate("seen")
    assert len(shown) == 15
    for path, text in shown.items():
        assert same(text.split()[0], at(seen, path))
    tab.resize(NARROW)
    assert tab.evaluate(WIDE) <= NARROW
    assert tab.evaluate("document.querySelector('h1').textContent") == "spring <b>study</b>"
    assert tab.evaluate("[...document.querySelectorAll('article td')].map(each => each.textContent)")[0] in NAMES
    page.close("no room")  # waits until the browser has asked once more
    tab.until("document.querySelector('#problem').textContent === 'no room'")
    assert tab.evaluate("document.querySelector('#note').textContent") == "ended"


def test_the_page_runs_no_script_of_others(opened, serve):
    evil_name = "<img src=x onerror=alert(1)><script>document.title='caught'</script>"
    member = {"member": evil_name, "private": True, "budget": None, "status": None, "problem": evil_name}
    page = serve(lambda: {"title": evil_name, "members": [member | {"log": [evil_name]}]})
    tab = opened(page.address)
    tab.until("document.querySelectorAll('article pre').length == 1")
    assert tab.evaluate("document.title") == evil_name
    assert tab.evaluate("document.querySelectorAll('img, main script').length") == 0
    page.close()
    tab.until("document.querySelector('#note').textContent === 'ended'")
