"""One exchange with the clients, repeated with those who failed while the quorum is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from fedtag.common.config.ingredients import ingredients, packages, reported_packages
from fedtag.common.errors import QuorumError
from fedtag.common.logs import Event, fields
from fedtag.common.methods.told import told_digest
from fedtag.common.numerics.robust_rules import fewest_clients
from fedtag.common.secure.names import INGREDIENTS, INTRODUCE
from fedtag.common.secure.phases import PROTOCOL
from fedtag.common.settings.registry import FEDTAG
from fedtag.common.wire.records import Content, Instruction, Reply, prefixed
from fedtag.common.wording.counts import plural
from fedtag.server.exchange.absence import Absence
from fedtag.server.exchange.exchange import Exchange
from fedtag.server.exchange.inbox import Inbox
from fedtag.server.exchange.ledger import add_durations, disclosures
from fedtag.server.exchange.messages import Messages
from fedtag.server.exchange.participation import CLOSE, SCORE, participants
from fedtag.server.exchange.peer_list import ASK_KEYS, PeerList
from fedtag.server.exchange.screening import check_instructed
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.forms import TensorForm
from fedtag.server.protocol.method import ServerMethod
from fedtag.server.protocol.phases import Phase
from fedtag.server.state.monitor import Monitor
from fedtag.server.state.progress import Progress
from fedtag.server.state.round import Exchanged, Round
from fedtag.server.state.run_state import RunState
from fedtag.server.state.troubles import left_out
from fedtag.server.tracking.parent import read_parent
from fedtag.server.tracking.run_directory import RunDirectory
from fedtag.server.tracking.run_log import RunLog
from fedtag.server.tracking.status import safe

# The rest of a deadline is for loading, scoring and the way back; what round 1 has more is for encoding.
TRAINING_SHARE = 0.8


class Phases:
    """The exchanges of a run.

    Args:
        exchange: with the grid's nodes.
        method: gives the instructions.
        context: of the run.
        directory: where disclosures are written.
        progress: told about troubles.
        run_state: of the run.
        monitor: told what goes on.
        log: told what crossed.
    """

    def __init__(
        self,
        exchange: Exchange,
        method: ServerMethod,
        context: ServerContext,
        directory: RunDirectory,
        progress: Progress,
        run_state: RunState,
        monitor: Monitor,
        log: RunLog,
    ) -> None:
        self.exchange = exchange
        self.method = method
        self.context = context
        self.config = config = context.settings
        self.directory = directory
        self.progress = progress
        self.run_state = run_state
        self.monitor = monitor
        self.log = log
        # Once there is a state, it has what was taken from the parent.
        new = bool(config.parent.model) and run_state.state is None
        parent = read_parent(directory, config.parent.model) if new else None
        self.inbox = Inbox(method, context, parent, exchange.called)
        self.instructed: Mapping[int, Instruction] = {}
        self.peers = PeerList()
        self.messages = Messages(self.peers, run_state, config.exchange.max_message_mb * 2**20)

    @property
    def names(self) -> Mapping[int, str]:
        """The clients behind the nodes that have said who they are."""
        return self.inbox.names

    def online(self) -> list[int]:
        """The nodes that are there, without those whose site has come back as another node.

        At the start of a run they are told as soon as enough of them are there.

        Raises:
            QuorumError: too few came.
        """
        wanted = self.config.clients if not self.names else 1
        return self.exchange.nodes(wanted, self.progress, self.monitor, self.inbox.silent)

    def introduced(self, current: Round) -> list[int]:
        """The nodes that are online; those that have not said who they are, or have no keys yet, are asked.

        Raises:
            QuorumError: nobody has keys yet, and too few answered.
        """
        online = self.online()
        strangers = [node for node in online if self.names.get(node) not in self.peers.keys]
        self.peers.unknown = {}
        if strangers:
            wanted = 0 if self.peers.keys else None
            replies, failures = self.run(current, ASK_KEYS, dict.fromkeys(strangers, ASK_KEYS), wanted=wanted)
            self.peers.unknown = failures
            for client, why in self.peers.introduced(replies).items():
                note = f"{client} can exchange nothing with its peers: {why}"
                entry = fields(Event.PEERS, round=current.number, client=client, error="ProtocolError")
                self.progress.note(note, entry)
        return online

    def run(
        self,
        current: Round,
        phase: Phase,
        asked: Mapping[int, Phase] | None = None,
        extra: Callable[[str | None], Content] | None = None,
        expected: Mapping[str, TensorForm] | None = None,
        wanted: int | None = None,
    ) -> tuple[dict[str, Reply], dict[str, str]]:
        """Usable replies and reasons of failure, by client.

        Args:
            current: the round; durations and bytes are added to it.
            phase: of the method, of scoring, or of secure summation.
            asked: the phase of each node; by default of those who take part.
            extra: what goes to a client beside the method's own instruction.
            expected: tensors that a contribution must have, by default those of the method.
            wanted: how many usable replies are enough, by default the quorum; with a number given, nobody is
                asked twice.

        Raises:
            QuorumError: too few are usable.
        """
        if phase.name not in PROTOCOL and phase is not SCORE:
            self.run_state.step += 1
        settings = self.config.exchange
        deadline = settings.first_deadline if current.number == 1 else settings.deadline
        if asked is None:
            asked = participants(self.online(), self.names, self.config, current.number, phase, current.due)
        once, fewest = wanted is not None, self.fewest if phase.gathers == "step" else 1
        absence = Absence(settings, len(asked), begun=once or bool(self.names))
        wanted = wanted if wanted is not None else absence.quorum(fewest)
        usable: dict[str, Reply] = {}
        failures: dict[str, str] = {}
        attempts = 1 if once else settings.retries + 1
        while attempts:
            attempts -= 1
            instructions = {
                node: self._instruction(current, node, part, deadline, extra if part is phase else None)
                for node, part in asked.items()
            }
            self.instructed = instructions
            labels = {node: self.inbox.label(node, self.run_state) for node in instructions}
            labelled = {labels[node]: instruction for node, instruction in instructions.items()}
            self.monitor.asked(current.number, phase.name, asked, deadline)
            exchanged = self.exchange.run(instructions, deadline, self.monitor)
            before = self.inbox.replaced
            accepted, refused = self.inbox.receive(exchanged.replies, asked, self.run_state, expected)
            for node, client in self.inbox.replaced.items() - before.items():
                note = f"{client} has come back as another node; node {node} is asked no more"
                self.progress.note(
                    note, fields(Event.RETURNED, round=current.number, client=client, node=str(node))
                )
            self._note_releases(current, exchanged)
            troubles = exchanged.failures | refusals_by_node(exchanged.replies, refused)
            self.log.exchanged(instructions, exchanged.replies, troubles, self.inbox.declared)
            self.monitor.exchanged(current.number, phase.name, exchanged, troubles, self.names)
            refused |= {labels[node]: reason for node, reason in exchanged.failures.items()}
            known = {labels[node] for node in absence.noted(asked, exchanged.failures)}
            wanted = wanted if once else absence.quorum(fewest)
            usable = accepted | usable
            failures = {name: why for name, why in (failures | refused).items() if name not in usable}
            current.traffic.up += exchanged.bytes_up
            current.traffic.down += exchanged.bytes_down
            add_durations(current.seconds, exchanged.seconds, accepted)
            signs = {self.inbox.label(node, self.run_state): one for node, one in exchanged.signs.items()}
            self.directory.append_disclosures(
                disclosures(current.number, phase.name, labelled, accepted, self.inbox.declared, signs)
            )
            own = {*self.names.values(), *self.inbox.called.values()}
            for client, reason in sorted((name, why) for name, why in refused.items() if name not in known):
                note = f"round {current.number}, {client} is left out: {reason}"
                self.progress.note(note, left_out(current.number, client, reason, own))
            if len(usable) >= wanted:
                if phase.letters:
                    self.messages.exchanged(usable, self.progress.note)
                return dict(sorted(usable.items())), failures
            waits = absence.wait(self.monitor.beat)
            attempts += waits
            online = set(self.exchange.nodes(1, self.progress, self.monitor, self.inbox.silent))
            online -= set() if waits else absence.pending
            asked = {
                node: part
                for node, part in asked.items()
                if node in online and self.names.get(node) not in usable
            }
        reasons = "; ".join(f"{client}: {reason}" for client, reason in sorted(failures.items()))
        needed = f"{wanted} {'is' if wanted == 1 else 'are'} needed"
        missed = f"{plural(len(usable), 'client')} answered, {needed} ({reasons})"
        if once:
            raise QuorumError(missed)
        raise QuorumError(
            f"round {current.number} stopped: {missed}. "
            f"{safe(self.run_state.round)}: resume {self.directory.path}"
        )

    @property
    def fewest(self) -> int:
        """The updates that the rule needs, because it cannot outvote anybody with fewer."""
        rule = self.config.aggregation
        return fewest_clients(rule.rule, rule.hostile, rule.trim)

    def told(self) -> bytes:
        """The digest of what all members of a sum were asked for in the last exchange."""
        asked = next(one for one in self.instructed.values() if "sum" in one.content.values)
        return told_digest(asked, self.inbox.declared, self.config.digest())

    def _note_releases(self, current: Round, exchanged: Exchanged) -> None:
        """Keep which releases clients have of what the run is made of, and say once where they are not the server's."""
        own = packages(self.config)
        for node in sorted(exchanged.releases.keys() & self.names.keys()):
            client = self.names[node]
            before = self.run_state.releases.get(client, {})
            introduction = exchanged.replies[node].content.values.get("introduction")
            found = {**before, **reported_packages(introduction, own), FEDTAG: exchanged.releases[node]}
            for package, version in sorted(found.items() - before.items()):
                if version != own[package]:
                    note = (
                        f"{client} has {package} {version}, the server {own[package]}; both have one protocol"
                    )
                    other = fields(Event.OTHER_RELEASE, round=current.number, client=client, release=version)
                    self.progress.note(note, other)
            self.run_state.releases = {**self.run_state.releases, client: found}

    def _instruction(
        self,
        current: Round,
        node: int,
        phase: Phase,
        deadline: float,
        extra: Callable[[str | None], Content] | None,
    ) -> Instruction:
        run_state, client = self.run_state, self.names.get(node)
        more = Content() if extra is None else extra(client)
        tensors: dict[str, Tensor] = {}
        values: dict[str, object] = {INTRODUCE: client is None}
        if client is None:
            values[INGREDIENTS] = ingredients(self.config)
        letters = more.letters
        if phase.name not in PROTOCOL:
            content = self.method.instruct(run_state.state, phase, client, self.context)
            check_instructed(content, self.inbox.declared, self.config.method)
            tensors |= content.tensors
            letters = content.letters + letters
            values |= {
                **content.values,
                "evaluate": current.due,
                "evaluate_local": self.config.evaluation.local,
                "training_seconds": TRAINING_SHARE * min(deadline, self.config.exchange.deadline),
            }
        if phase.letters and client is not None:
            delivery = self.messages.delivery(client)
            letters += delivery.letters
            values |= delivery.values
        if phase is CLOSE and self.config.spec.traits.keeps_evidence:
            tensors |= prefixed("best", run_state.best)
            values |= {"best_round": run_state.best_round, "last_round": run_state.round}
        values |= more.values
        return Instruction(
            run_state.run, run_state.step, current.number, phase.name, Content(tensors, values, letters)
        )


def refusals_by_node(replies: Mapping[int, Reply], refused: Mapping[str, str]) -> dict[int, str]:
    """Reasons of refusal by node; among nodes that claim one name, the one whose claim was heard has it."""
    reasons = {
        node: refused.get(f"node {node}", refused.get(reply.client)) for node, reply in replies.items()
    }
    return {node: why for node, why in reasons.items() if why is not None}
