"""Groups for threads: the interface of thence.client, with calls that wait.

All nodes of a process run in one background thread with an event loop; a call is carried out there
while the caller waits.  So a message is tagged between the call and its return, and nothing that
was not taken by then is before it.  Events are taken one at a time, when a thread asks for one: a
queue on the thread's side would move the context too early, and a message would come after things
that no thread had seen (thesis 3.6).

Who shares a context?

- Threads that use one ``Group`` share it: what one of them took is before what any of them sends.
  Right for threads that share the application's state, and the default.
- ``group.session()`` gives a thread a context of its own: its messages come after what *it* took,
  and after its own, whatever other threads do meanwhile.  Each session is told everything, what
  other sessions of this node say included.  Its messages travel on a stream of their own, and so
  take no part in stability.
"""

from thence.blocking.group import Group
from thence.blocking.node import Node
from thence.blocking.session import Session

__all__ = ["Group", "Node", "Session"]
