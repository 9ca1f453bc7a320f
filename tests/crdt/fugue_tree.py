"""FugueMax as its paper has it: a tree of elements with identifiers, which forgets nothing.

What ``sequence`` is compared with.  Nothing here knows of indices in others' views, of stability
or of blocks: each element travels with its identifier, its place in the tree and the identifier of
what was to its right, and deleted elements stay.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Identifier = tuple[str, int, int]
"""(replica, number of its batch, number of the element there)."""


class Inserted(NamedTuple):
    """An element as it travels."""

    identifier: Identifier
    element: Any
    parent: Identifier | None
    is_right: bool
    right_origin: Identifier | None


class Node:
    """An element in the tree."""

    def __init__(self, inserted: Inserted | None) -> None:
        self.inserted = inserted
        self.deleted = inserted is None
        self.lefts: list[Node] = []
        self.rights: list[Node] = []


class FugueTree:
    """One replica."""

    def __init__(self) -> None:
        self.root = Node(None)
        self.nodes: dict[Identifier | None, Node] = {None: self.root}

    def order(self) -> list[Node]:
        """All nodes in their order, deleted ones too."""
        found: list[Node] = []
        stack: list[tuple[Node, bool]] = [(self.root, False)]
        while stack:
            node, opened = stack.pop()
            if opened:
                found.append(node)
                continue
            stack.extend((child, False) for child in reversed(node.rights))
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(node.lefts))
        return found

    def elements(self) -> list[Any]:
        return [node.inserted.element for node in self.order() if not node.deleted]

    def insert(self, index: int, elements: Any, batch: tuple[str, int], number: int) -> list[Any]:
        """Insert here; what the others have to ``apply``."""
        messages: list[Any] = []
        for step, element in enumerate(elements):
            order = self.order()
            shown = [node for node in order if not node.deleted]
            left = shown[index + step - 1] if index + step else self.root
            place = order.index(left) + 1
            right = order[place].inserted.identifier if place < len(order) else None
            identifier = (*batch, number + step)
            own = left.inserted.identifier if left.inserted else None
            if left.rights:
                message = Inserted(identifier, element, right, False, None)
            else:
                message = Inserted(identifier, element, own, True, right)
            self.apply(message)
            messages.append(message)
        return messages

    def delete(self, index: int, count: int) -> list[Any]:
        """Delete here; what the others have to ``apply``."""
        shown = [node for node in self.order() if not node.deleted]
        messages = [node.inserted.identifier for node in shown[index : index + count]]
        for message in messages:
            self.apply(message)
        return messages

    def apply(self, message: Any) -> None:
        """An element that was inserted, or the identifier of one that was deleted."""
        if not isinstance(message, Inserted):
            self.nodes[message].deleted = True
            return
        node = self.nodes[message.identifier] = Node(message)
        parent = self.nodes[message.parent]
        if not message.is_right:
            parent.lefts.append(node)
            parent.lefts.sort(key=lambda child: child.inserted.identifier)
            return
        places: dict[Identifier | None, int] = {}
        for place, other in enumerate(self.order()):
            if other.inserted:
                places[other.inserted.identifier] = place
        places[None] = len(places) + 1
        parent.rights.append(node)
        # Whoever was inserted before something that is further to the right comes first.
        parent.rights.sort(
            key=lambda child: (-places[child.inserted.right_origin], child.inserted.identifier)
        )
