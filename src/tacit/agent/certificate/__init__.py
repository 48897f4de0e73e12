"""The certificate of a finished run, from the members' signed reports to what a reader may believe. Read it in this
order:

1. `signed_report`: what a member writes when its run is over, and signs;
2. `claims`: what one report claims, checked against the federation file; of heads of ledgers in it, `ledger_claims`;
3. `trained_model`: what the file of the model must say;
4. `examination`: all reports of a run as one certificate, made, and checked against each other;
5. `verdict`: what that proves, who has signed it, and what must be believed.

`tacit.agent.documents` reads all of these files strictly. `tacit.agent.heard` is the digest by which what one member
sent is compared with what another has heard.
"""
