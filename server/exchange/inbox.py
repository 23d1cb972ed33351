"""The inbox: whose they are, whether they agree with the federation, whether they are usable."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fedtag.common.errors import WireError
from fedtag.common.models.parameters import fingerprint
from fedtag.common.parts.spec import declared_records
from fedtag.common.secure.phases import KEYS, PROTOCOL
from fedtag.common.wire.records import Reply
from fedtag.server.exchange.claims import check_claims, claimed, overclaiming
from fedtag.server.exchange.introductions import disagreement, majority, parse_introduction, tells_drawn
from fedtag.server.exchange.messages import check_letters
from fedtag.server.exchange.participation import SCORE
from fedtag.server.exchange.screening import check_content, check_norm
from fedtag.server.methods.warm_start import begun
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.forms import TensorForm
from fedtag.server.protocol.method import ServerMethod
from fedtag.server.protocol.phases import Phase
from fedtag.server.protocol.state import Agreement
from fedtag.server.state.run_state import RunState
from fedtag.server.strategies.weights import parse_statistics
from fedtag.server.tracking.release import Release


class Inbox:
    """Names of nodes, learned from their replies, and the screening of what they send.

    A node's identity is the name that its site gives itself, because Flower gives a restarted node another
    number.

    Args:
        method, context: of the run.
        parent: the model that the run begins with.
        called: what people call nodes that have not said their names, where it is known.
    """

    def __init__(
        self,
        method: ServerMethod,
        context: ServerContext,
        parent: Release | None = None,
        called: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        self.method = method
        self.parent = parent
        self.context = context
        self.config = context.settings
        self.declared = declared_records(context.settings)
        self.names: dict[int, str] = {}
        self._former: dict[int, str] = {}
        self.excluded: dict[str, str] = {}
        self.called = called

    @property
    def replaced(self) -> dict[int, str]:
        """Nodes whose name another one has now, as after a restart; Flower believes in them for up to a minute."""
        taken = set(self.names.values())
        return {node: name for node, name in self._former.items() if name in taken}

    @property
    def silent(self) -> dict[int, str]:
        """Nodes that are asked nothing any more: replaced ones, and those of clients that claimed too much."""
        return self.replaced | {node: name for node, name in self.names.items() if name in self.excluded}

    def label(self, node: int, run_state: RunState) -> str:
        """How messages to people call a node: by its name in this run, which it may have told before a resumption."""
        told = self.names.get(node) or run_state.nodes.get(node)
        return told or self.called.get(node) or f"node {node}"

    def receive(
        self,
        arrived: Mapping[int, Reply],
        phases: Mapping[int, Phase],
        run_state: RunState,
        expected: Mapping[str, TensorForm] | None = None,
    ) -> tuple[dict[str, Reply], dict[str, str]]:
        """Usable replies and reasons of refusal, by client.

        The first replies of a run decide what the federation has in common and so begin the method's state.

        Args:
            arrived: by node.
            phases: what each node was asked for.
            run_state: of the run.
            expected: tensors of a contribution, where they are not those of the method.
        """
        accepted: dict[str, tuple[int, Reply]] = {}
        refused: dict[str, str] = {}
        # Who has had a name comes before newcomers that claim it.
        for node in sorted(arrived, key=lambda node: (self.names.get(node) != arrived[node].client, node)):
            reply = arrived[node]
            if reply.client in accepted:
                refused[f"node {node}"] = (
                    f"another node also calls itself '{reply.client}': give each site its own name in --node-config"
                )
            else:
                accepted[reply.client] = (node, reply)
        moving = {client: phases[node].moves for client, (node, _) in accepted.items()}
        refused |= self._agree({client: reply for client, (_, reply) in accepted.items()}, moving, run_state)
        usable: dict[str, Reply] = {}
        for client, (node, reply) in accepted.items():
            if client in refused:
                continue
            try:
                self._check(reply, phases[node], run_state, expected)
                check_claims(client, reply.content.values, run_state.stated)
            except WireError as error:
                refused[client] = str(error)
                continue
            self._name(node, client)
            others = {known: name for known, name in run_state.nodes.items() if name != client}
            run_state.nodes = {**others, node: client}
            usable[client] = reply
        first = {
            client: {**claimed(reply.content.values), **run_state.stated.get(client, {})}
            for client, reply in usable.items()
        }
        run_state.stated = {**run_state.stated, **first}
        self.excluded = overclaiming(run_state.stated)
        refused |= {client: why for client, why in self.excluded.items() if usable.pop(client, None)}
        return usable, refused

    def _check(
        self, reply: Reply, phase: Phase, run_state: RunState, expected: Mapping[str, TensorForm] | None
    ) -> None:
        assert run_state.state is not None
        assert run_state.agreement is not None
        if phase.name in PROTOCOL:
            forms: Mapping[str, TensorForm] = {}
        else:
            own = self.method.expected(run_state.state, phase, self.context)
            forms = own if expected is None or phase is SCORE else expected
        silent = self.config.privacy.hide_statistics or phase.name in PROTOCOL - {KEYS}
        check_content(reply, forms, run_state.agreement, self.declared, sized=not silent)
        if phase.gathers == "step":
            check_norm(reply, self.config.aggregation.max_update_norm)
        check_letters(reply.content.letters, phase, self.declared)
        if "statistics" in reply.content.values:
            parse_statistics(reply.content.values["statistics"], len(run_state.agreement.classes))

    def _name(self, node: int, client: str) -> None:
        for other in [known for known, name in self.names.items() if name == client and known != node]:
            del self.names[other]
            self._former[other] = client
        self.names[node] = client
        self._former.pop(node, None)

    def _agree(
        self, replies: Mapping[str, Reply], moving: Mapping[str, str], run_state: RunState
    ) -> dict[str, str]:
        refused: dict[str, str] = {}
        reported: dict[str, Agreement] = {}
        for client, reply in replies.items():
            if "introduction" in reply.content.values:
                try:
                    reported[client] = parse_introduction(reply.content.values)
                except WireError as error:
                    refused[client] = str(error)
        if run_state.agreement is None:
            if not reported:
                return refused | dict.fromkeys(replies, "the client did not introduce itself")
            run_state.agreement = majority(reported)
            run_state.state = begun(self.method, run_state.agreement, self.context, self.parent)
        assert run_state.state is not None
        first = set(moving.values()) if reported and run_state.round == 0 else ()
        starts = {section: fingerprint(run_state.state.section(section)) for section in first}
        for client, own in reported.items():
            reason = disagreement(own, run_state.agreement)
            initial = replies[client].content.values.get("initial")
            if reason is None and initial is not None and starts and initial != starts[moving[client]]:
                reason = (
                    "the seed gives other initial parameters there: install the same versions on all sites"
                )
            if reason is not None:
                refused[client] = reason
            else:
                run_state.count_tokens(_encoder_tokens(replies[client]))
                if tells_drawn(replies[client].content.values):
                    run_state.drawn = tuple(sorted({*run_state.drawn, client}))
        return refused


def _encoder_tokens(reply: Reply) -> dict[str, int]:
    return {"encoder": reply.content.values["introduction"].get("encoded_tokens", 0)}
