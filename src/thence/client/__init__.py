"""A node at work: groups for applications, and what drives them.

group     one group, for applications (asyncio)    node      a node that has several
events    what an application is told              station   settings, runtime and status page
waiting   what an application may wait for         handing   callbacks, in one loop for a burst
driver    one group of one node, pure              exchange, outbox, flow, ledger, tracing: parts
hub       connections and who dials, pure          runtime   sockets and timers for both (asyncio)
status    its numbers, for the status page         debug, delay   switches for people who look
suspicion   whose silence is suspicious, pure      secret, bucket   who is let in, and how often
"""
