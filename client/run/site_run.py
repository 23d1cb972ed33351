"""One site in one run: it carries out instructions, each with what is kept ready from those before."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

from fedtag.client.context.clock import Clock
from fedtag.client.context.memory import RunMemory
from fedtag.client.context.messages import Messages
from fedtag.client.context.progress import Report
from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.data.splitting import drawn_note
from fedtag.client.data.text_graph import TRAIN
from fedtag.client.methods.side import ClientSide
from fedtag.client.policy.gate import Gate
from fedtag.client.run.agreement import check_agreement, fix_settings
from fedtag.client.run.commitment import committed_counts
from fedtag.client.run.guard import Guard
from fedtag.client.run.inheritance import inherit
from fedtag.client.run.method import method_of
from fedtag.client.run.opened_site import site_data
from fedtag.client.run.recorded import Recorded
from fedtag.client.run.snapshot import begin, check_unchanged, keep_features
from fedtag.client.site.audit import site_log
from fedtag.client.site.register import Register
from fedtag.client.site.retention import sweep
from fedtag.client.site.site import Site
from fedtag.client.site.storage import full_disk_explained
from fedtag.client.site.use import in_use
from fedtag.client.train.capacity import memory_explained
from fedtag.client.train.repeatable import repeatable
from fedtag.client.train.threads import limited_threads
from fedtag.common.config import RunConfig
from fedtag.common.config.ingredients import packages
from fedtag.common.logs import LOGGER
from fedtag.common.parts.spec import declared_records
from fedtag.common.secure.names import COMMITTED, INTRODUCE, UNOPENED
from fedtag.common.secure.phases import PROTOCOL
from fedtag.common.wire.records import Content, Instruction, Reply
from fedtag.common.wording.split import DRAWN, GIVEN


class SiteRun:
    """A site that takes part.

    It may serve a single message or all of a run: everything it holds is derived from the site's folder, the settings
    and the state on disk.

    Args:
        site: where its data and its own files lie.
        config: of the run.
        progress: told how far long work is.
    """

    def __init__(self, site: Site, config: RunConfig, progress: Report | None = None) -> None:
        self.site = site
        self.config = config
        self._clock = Clock()
        self._progress = progress

    @cached_property
    def data(self) -> SiteData:
        """The site's data, without what parts make of them."""
        return site_data(self.site, self.config, self._progress, clock=self._clock, on_host=True)

    def respond(self, instruction: Instruction) -> Reply:
        """Carry out an instruction, and let out what may leave.

        Raises:
            VersionError: the server's run is made of something else than what is installed here.
            ProtocolError: the run came with other settings before, or the site's data have changed since.
            PolicyError: the site's policy refuses the run, the instruction, or what would leave.
            RunError: nodes of the site are being forgotten, and that takes too long.
        """
        record = Recorded(self.site, instruction)
        with full_disk_explained(self.site):
            record.instructed()
            try:
                # Rows that are forgotten meanwhile would come back in what is made of them.
                with in_use(self.site):
                    reply = self._carried_out(instruction, record)
            except Exception as error:
                record.refused(error)
                raise
            record.answered(reply, self._guard.declared, self.config.rounds)
        return reply

    def admit_kept(self, instruction: Instruction, reply: Reply, sent: bool) -> None:
        """Let out a reply that was kept: the policy of now decides, and what leaves again is counted and noted again.

        Args:
            instruction: that it answers.
            reply: as it was let out before.
            sent: whether it left already.

        Raises:
            PolicyError: the site's policy no longer allows it.
        """
        record = Recorded(self.site, instruction)
        with full_disk_explained(self.site):
            try:
                self._gate.admit(instruction)
                if sent:
                    record.instructed()
                    self._gate.let_out(reply, instruction, again=True)
            except Exception as error:
                record.refused(error)
                raise
            if sent:
                record.answered(reply, declared_records(self.config), self.config.rounds)

    def _carried_out(self, instruction: Instruction, record: Recorded) -> Reply:
        check_agreement(instruction, self.config)
        self._clock.restart()
        self._gate.admit(instruction)
        inherit(self.site, instruction, self.config)
        fix_settings(self.site, instruction, self.config)
        begin(self.site, instruction.run, lambda: self.data.text_graph, partial(self._noted, record))
        check_unchanged(self.site, instruction.run)
        if instruction.phase in PROTOCOL:
            content = self._guard.answered(instruction)
        else:
            content = self._contribution(instruction)
        values = dict(content.values)
        values["seconds"] = {work: round(seconds, 6) for work, seconds in self._clock.seconds.items()}
        if instruction.content.values.get(INTRODUCE):
            values["introduction"] = self.introduction(instruction.run)
        # What was read while somebody wrote it is of no state.
        check_unchanged(self.site, instruction.run)
        content = Content(content.tensors, values, content.letters)
        reply = Reply(
            instruction.run, instruction.step, instruction.round, instruction.phase, self.site.name, content
        )
        self._gate.let_out(reply, instruction)
        return reply

    def _noted(self, record: Recorded, data: str) -> None:
        """Note which nodes a new run is about, and remove what was kept for long enough, before it begins."""
        if site_log(self.site).kept:
            run, graph = record.instruction.run, self.data.text_graph
            Register(self.site).enter(run, data, graph.node_ids, graph.split == TRAIN)
            sweep(self.site, self._gate.retention, running=run)
        record.began(self.config.digest(), data, self.config.parent.run)

    def introduction(self, run: str) -> dict[str, Any]:
        """What all clients must agree upon, whether the split was drawn, and what was encoded.

        The last tells about how many nodes there are.
        """
        drawn = self.data.text_graph.split_drawn
        if drawn and self.site.seed is None:
            LOGGER.info("%s: %s", self.site.name, drawn_note())
        common = {
            "classes": list(self.data.text_graph.classes),
            "dimension": self.data.graph.x.shape[1],
            "features": self.data.features_from,
            "packages": packages(self.config),
            "split": DRAWN if drawn else GIVEN,
        }
        if self.config.privacy.hide_statistics:
            return {**common, COMMITTED: committed_counts(self.site, run, self.data.sizes)}
        encoded = self.data.encoded
        return {**common, "encoded_chunks": encoded["chunks"], "encoded_tokens": encoded["tokens"]}

    def _contribution(self, instruction: Instruction) -> Content:
        """guard(parts(method)), with the letters that go out."""
        post = Post(self.site, instruction, self.config.exchange.max_message_mb * 2**20)
        memory = RunMemory(self.site, instruction)
        context: RunContext[Any] = RunContext(
            self.site, self.config, memory, instruction, post, self._clock, self._progress
        )
        method = self._method
        keep_features(self.site, instruction.run, self.data.features_from)
        device = self.data.device
        with (
            limited_threads(self.data.graph.x.numel()),
            memory_explained(self.config, device),
            repeatable(device, self.config),
        ):
            content = post.added(method.respond(self.data, context))
            content = self._guard.let_out(content, instruction, lambda name: method.may_lack(name, context))
        post.close()
        return content

    @cached_property
    def _gate(self) -> Gate:
        return Gate(self.site, self.config)

    @cached_property
    def _guard(self) -> Guard:
        return Guard(self.config, self.data, self._clock)

    @cached_property
    def _method(self) -> ClientSide:
        return method_of(self.config)


class Post:
    """The letters of one exchange, opened when the method first asks for them.

    Args:
        site: whose letters they are.
        instruction: that brought them.
        max_bytes: of one letter's tensors.
    """

    def __init__(self, site: Site, instruction: Instruction, max_bytes: float) -> None:
        self._from = site, instruction, max_bytes
        self._messages: Messages | None = None

    def __call__(self) -> Messages:
        if self._messages is None:
            self._messages = Messages(*self._from)
        return self._messages

    def added(self, content: Content) -> Content:
        """A contribution with the letters that go out, and whose letters were dropped."""
        if self._messages is None:
            return content
        letters, unopened = tuple(self._messages.outgoing), list(self._messages.unopened)
        values = {**content.values, **({UNOPENED: unopened} if unopened else {})}
        return Content(content.tensors, values, content.letters + letters)

    def close(self) -> None:
        """Remember what was read."""
        if self._messages is not None:
            self._messages.close()
