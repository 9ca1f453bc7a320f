"""A node at work: groups for applications, and what drives them.

events    what an application is told          group     the interface of applications (asyncio)
driver    one group of one node, pure          outbox, flow, ledger, tracing: parts of it
hub       connections and who dials, pure      runtime   sockets and timers for both (asyncio)
"""
