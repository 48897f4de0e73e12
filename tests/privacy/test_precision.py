"""flint has one precision for all threads: nobody changes it while another thread computes."""

import subprocess
import sys
import threading

import pytest
from flint import ctx

from tacit.privacy import head_tail
from tacit.privacy.precision import precision


def test_a_second_thread_waits_until_the_first_is_done():
    inside = threading.Event()

    def other():
        with precision(60):
            inside.set()

    with precision(128):
        thread = threading.Thread(target=other)
        thread.start()
        assert not inside.wait(0.2)
        assert ctx.prec == 128
    thread.join()
    assert inside.is_set()


@pytest.mark.parametrize("table", [head_tail._logarithms, head_tail._circle])
@pytest.mark.parametrize("bits", [30, 53, 90])
def test_a_table_of_too_few_bits_is_refused(monkeypatch, table, bits):
    """As if another library had set them in the middle."""
    monkeypatch.setattr(head_tail, "precision", lambda _: precision(bits))
    with pytest.raises(RuntimeError, match="changed the precision of flint"):
        table.__wrapped__()


def test_a_child_does_not_wait_for_a_thread_that_stayed_behind():
    script = """
import os, threading
from tacit.privacy.precision import precision
held, done = threading.Event(), threading.Event()
def hold():
    with precision(128):
        held.set()
        done.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    with precision(64):
        os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
done.set()
"""
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=300)
    assert found.stdout == "7\n", found.stderr
