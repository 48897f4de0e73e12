"""A member that sends and answers nonsense harms nobody. 100,000 messages of it: `make fuzz`."""

import pytest
from mutated_messages import fuzz


@pytest.mark.slow
def test_two_thousand_mutated_messages(tmp_path):
    complaints, table = fuzz(tmp_path, messages=2000, seed=1)
    assert not complaints, f"{complaints}\n{table}"
