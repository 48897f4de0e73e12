"""A member that sends and answers nonsense harms nobody. 100,000 messages of it: `make fuzz`."""

import pytest
from mutated_messages import contradicted, fuzz


@pytest.mark.slow
def test_two_thousand_mutated_messages(tmp_path):
    complaints, table = fuzz(tmp_path, messages=2000, seed=1)
    assert not complaints, f"{complaints}\n{table}"


@pytest.mark.slow
def test_an_enemy_that_signs_two_rows_at_one_tick_ends_the_run_and_is_named(tmp_path):
    assert contradicted(tmp_path, seed=1) == []
