"""How agents talk: frames over TLS in which both sides show the certificates of the federation file.

**Pull.** Agents do not send; they ask. An agent asks each neighbour for what it said at a tick, and the neighbour
answers when it has said it. So there is nothing to acknowledge, no inbox that must survive a crash, nothing to buffer,
and a question that is repeated, late or out of order gets the same answer. An agent that is behind asks for old ticks;
one that is ahead waits. A server receives only questions of a few bytes: nobody can push anything to it.

**One question at a time.** A connection carries one question, then its answer, then the next question. An agent that
asks several things at once has several connections. One that does not want an answer any more closes the connection.

**Authentication.** The server pins exactly its neighbours' certificates: for all others the TLS handshake fails before
any byte of the protocol (`tls_streams`). Then every question is checked. The certificate of its connection must
be that of the member that it says it is from, the run must be this one, and the tick must be one at which this agent
speaks to that member. A client pins exactly the certificate of the neighbour that it calls. Every kind of refusal is
logged once. A member that renews its certificate has two for a while (`tacit.agent.membership.renewal`): whether one
still counts is checked at every question, from both ends.

**Nobody uses up what others need.** Connections are limited before TLS, for each address, and after it, for each member
(`door`). Answers to a member count until they are written: a member that does not read gets no more of them, and is
closed when nobody would wait any longer.

**To read**: `wire.proto` and `wire` have the messages, `sizes` how long they can be, `tls_streams` the frames, and
`tls` what secures them. `server` answers what a `peer` asks; `door` limits connections, `refusals` the lines about what
was refused. `sockets` is the network itself, which comes from outside.
"""
