"""What is seen of an agent from outside. Nothing in here may hold up the agent, or show a record.

1. `progress`: where the agent is. The loop writes it, all others read it;
2. `logs`: a line for each thing that happened;
3. `systemd` and `prometheus`: what supervisors are told, and what they ask for;
4. `status`: what store and ledger show, for `tacit agent status` and for the `page` to watch.
"""
