"""Screening of replies: nothing that a client sends is used before it has been checked."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fedtag.common.errors import RunError, WireError
from fedtag.common.methods.base import BASE_RECORDS
from fedtag.common.methods.records import Record, by_name
from fedtag.common.methods.reported import MOST_EFFECTIVE_STEPS
from fedtag.common.numerics.clipping import l2_norm
from fedtag.common.numerics.scores import Tally, count_forms
from fedtag.common.secure.upload import Opened
from fedtag.common.wire.names import CLIENT_NAME
from fedtag.common.wire.records import Content, Instruction, Reply
from fedtag.common.wire.signs import Sign
from fedtag.server.protocol.forms import TensorForm
from fedtag.server.protocol.state import Agreement

SUBSETS = ("val", "test")
# Far beyond any step of training; sums and squares of larger float32 values soon overflow.
LARGEST_CHANGE = 1e6
# Far more than the rounding of fixed point.
SUM_TOLERANCE = 1e-3
SIZES = by_name(BASE_RECORDS)["sizes"]


def check_origin(reply: Reply | Sign, instruction: Instruction) -> None:
    """Refuse what does not answer this very instruction: another run, a stale or a replayed reply or sign.

    Raises:
        WireError: naming the field that differs.
    """
    for name in ("run", "step", "round", "phase"):
        got, wanted = getattr(reply, name), getattr(instruction, name)
        if got != wanted:
            raise WireError(
                f"the reply belongs to {name} {str(got)[:64]!r}, not to {str(wanted)!r}: stale or replayed"
            )
    if isinstance(reply, Reply) and not CLIENT_NAME.fullmatch(reply.client):
        raise WireError(f"the client calls itself {reply.client[:80]!r}, which is no valid name")


def check_content(
    reply: Reply,
    expected: Mapping[str, TensorForm],
    agreement: Agreement,
    declared: Mapping[str, Record],
    sized: bool = True,
) -> None:
    """Refuse what was not declared, wrong keys, shapes, dtypes, values out of bounds, and impossible counts.

    Args:
        reply: whose origin has been checked.
        expected: the contribution's tensors; all but the optional ones must be there, or none at all.
        agreement: decides the shape of confusion counts.
        declared: kinds of records that may cross the network in the run, by name.
        sized: whether the reply must say how many nodes the client has; scores go with these counts only.

    Raises:
        WireError: naming the first fault.
    """
    values, tensors = reply.content.values, reply.content.tensors
    for name in [*values, *(name.partition("/")[0] for name in tensors)]:
        if name not in declared:
            raise WireError(f"'{name[:64]}' is declared by nothing in this run: install the same releases")
    for name, value in values.items():
        declared[name].check(value)
    scored = any(name.startswith("scores/") for name in tensors)
    if (scored or "sizes" in values) and not sized:
        raise WireError(
            "the client sent scores or counts of nodes in clear that it was to hide, or that nobody asked for"
        )
    if sized and "sizes" not in values:
        raise WireError("the client does not say how many nodes it has")
    contribution = {name: value for name, value in tensors.items() if not name.startswith("scores/")}
    if contribution:
        _contribution(contribution, expected)
        _bounded(contribution)
    groups = _grouped(reply.content.section("scores"))
    for path, subset in groups:
        if subset not in SUBSETS or any((path, other) not in groups for other in SUBSETS):
            raise WireError(f"scores '{path}/{subset}': a way of scoring has counts of val and of test nodes")
    for (path, subset), fields in groups.items():
        _counts(f"{path}/{subset}", fields, len(agreement.classes), values["sizes"][f"{subset}_nodes"])
    if any(letter.sender != reply.client for letter in reply.content.letters):
        raise WireError("a letter bears another sender than the client that handed it in")


def check_instructed(content: Content, declared: Mapping[str, Record], method: str) -> None:
    """Refuse what a method or a part would tell clients without declaring it, so that nothing crosses unlisted.

    Raises:
        RunError: naming the record.
    """
    for kind in sorted((content.kinds | content.values.keys()) - declared.keys()):
        raise RunError(
            f"method {method}, or a part of it, sends clients '{kind[:64]}', which is not declared: declare it among "
            "its records, or leave it out"
        )


def check_norm(reply: Reply, most: float) -> None:
    """Refuse an update that is longer than `aggregation.max-update-norm`.

    Args:
        reply: whose content has been checked.
        most: L2 norm over all floating-point tensors of the update; 0: no bound.

    Raises:
        WireError: naming the norm.
    """
    norm = l2_norm(reply.content.section("update"))
    # Not `norm > most`, which a norm that is not a number would pass.
    if most and not norm <= most:
        raise WireError(f"the update's L2 norm {norm:.6g} exceeds aggregation.max-update-norm ({most:g})")


def check_sum(opened: Opened, most_weight: float, classes: int, clients: int) -> None:
    """Refuse what no clients that keep to the protocol can sum to.

    A client that masks something else than its contribution cannot be told from the others; noise can.

    Args:
        opened: a sum over those who survived.
        most_weight: Σ w_i of the survivors.
        classes: agreed number of classes.
        clients: number of the survivors.

    Raises:
        WireError: naming the first fault.
    """
    check_users(opened.users, clients)
    for name, share in opened.shares.items():
        if not -SUM_TOLERANCE <= share <= most_weight + SUM_TOLERANCE:
            raise WireError(f"the weights of the users of '{name}' cannot sum to {share:.6g}")
    if not -SUM_TOLERANCE <= opened.weight <= most_weight + SUM_TOLERANCE:
        raise WireError(f"weights of {most_weight:.6g} cannot sum to {opened.weight:.6g}")
    if not -SUM_TOLERANCE <= opened.steps <= MOST_EFFECTIVE_STEPS:
        raise WireError(f"{opened.steps:.6g} is no number of effective steps")
    _bounded(opened.update)
    if not opened.sizes:
        return
    SIZES.check(opened.sizes)
    for (path, subset), fields in _grouped(opened.scores).items():
        # A client that did not train has no local score.
        counted = int(fields["confusion"].sum())
        if not 0 <= counted <= opened.sizes[f"{subset}_nodes"]:
            there = opened.sizes[f"{subset}_nodes"]
            raise WireError(f"scores '{path}/{subset}' count {counted} of {there} nodes")
        _counts(f"{path}/{subset}", fields, classes, counted)


def check_users(users: Mapping[str, int], clients: int) -> None:
    """Refuse counts of users that so many clients cannot come to.

    Raises:
        WireError: naming the tensor.
    """
    for name, count in users.items():
        if not 0 <= count <= clients:
            raise WireError(f"{count} of {clients} clients cannot use '{name}'")


def tallies(reply: Reply, path: str) -> dict[str, Tally]:
    """The checked counts of one way of scoring, by subset; empty if the client did not score."""
    groups = _grouped(reply.content.section("scores"))
    return {subset: Tally(**groups[path, subset]) for subset in SUBSETS if (path, subset) in groups}


def _contribution(tensors: Mapping[str, Tensor], expected: Mapping[str, TensorForm]) -> None:
    needed = {name for name, form in expected.items() if not form.optional}
    missing, surplus = sorted(needed - tensors.keys()), sorted(tensors.keys() - expected.keys())
    if missing or surplus:
        raise WireError(
            f"tensors differ from the agreed ones: missing {missing[:3]}, not asked for {surplus[:3]}"
        )
    for name, value in tensors.items():
        form = expected[name]
        if not form.fits(tuple(value.shape), value.dtype):
            raise WireError(
                f"tensor '{name}' has shape {tuple(value.shape)} and type {value.dtype}, "
                f"agreed are {form.shape} and {form.dtype}"
            )
        if not bool(torch.isfinite(value).all()):
            raise WireError(f"tensor '{name}' has values that are not finite")


def _bounded(tensors: Mapping[str, Tensor]) -> None:
    for name, value in tensors.items():
        if value.is_floating_point() and value.numel() and float(value.abs().max()) > LARGEST_CHANGE:
            raise WireError(f"tensor '{name}' has values beyond ±{LARGEST_CHANGE:g}: training diverged there")


def _grouped(scores: Mapping[str, Tensor]) -> dict[tuple[str, str], dict[str, Tensor]]:
    groups: dict[tuple[str, str], dict[str, Tensor]] = {}
    for name, value in scores.items():
        path, _, rest = name.partition("/")
        subset, _, field = rest.partition("/")
        groups.setdefault((path, subset), {})[field] = value
    return groups


def _counts(where: str, fields: Mapping[str, Tensor], classes: int, most: int) -> None:
    forms = count_forms(where.partition("/")[0], classes)
    _contribution(fields, {name: TensorForm(shape, dtype) for name, (shape, dtype) in forms.items()})
    if any(bool((value < 0).any()) for value in fields.values()):
        raise WireError(f"scores '{where}' hold negative counts")
    counted = [fields[name] for name in ("confusion", "bin_nodes", "ranks") if name in fields]
    # Each entry is bounded before the sum, which could wrap around.
    if any(bool((value > most).any()) for value in counted):
        raise WireError(f"scores '{where}' count more nodes than the {most} that the client has")
    if int(fields["confusion"].sum()) != most or int(fields["bin_nodes"].sum()) != most:
        raise WireError(f"scores '{where}' count other nodes than the {most} that the client has")
    if bool((fields["bin_confidence"] > fields["bin_nodes"] + 1e-3).any()):
        raise WireError(f"scores '{where}' hold confidences above 1")
    correct = fields["bin_correct"]
    if bool((correct > fields["bin_nodes"]).any()) or int(correct.sum()) != int(fields["confusion"].trace()):
        raise WireError(f"scores '{where}' hold other correct predictions by bin than by class")
    if "ranks" in fields:
        own = fields["confusion"].sum(1)
        if not torch.equal(fields["ranks"].sum(2), torch.stack([most - own, own])):
            raise WireError(f"scores '{where}' rank other nodes of a class than the client has")
