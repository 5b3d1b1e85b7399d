"""The pages of an action: what it would do to a flow, why it cannot be done now, and how it went."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidegauge.dashboard.action_processes import ActionProcess
from tidegauge.dashboard.actions import ActionKind, ActionRequest, check_means_one
from tidegauge.dashboard.flow_page import FlowPage, make_flow_page
from tidegauge.dashboard.snapshot import FleetSnapshots, SeenFlow
from tidegauge.errors import TidegaugeError
from tidegauge.model.override import FlowRevision

TITLES = {
    ActionKind.RETRY: "Retry",
    ActionKind.SUSPEND: "Suspend",
    ActionKind.RESUME: "Resume",
    ActionKind.SET: "Set the watermark of",
    ActionKind.RESET: "Reset the watermark of",
    ActionKind.VERIFY: "Verify",
}


@dataclass(frozen=True)
class ActionPage:
    at: datetime
    request: ActionRequest
    seen: SeenFlow
    will: str
    """A sentence that says what the action would do."""
    refused: str
    """Why the action cannot be done now; empty if it can."""
    revision: str
    """Identifies where the flow stands, so that an action is refused if the flow has moved since."""

    @property
    def title(self) -> str:
        return TITLES[self.request.kind]


@dataclass(frozen=True)
class OutcomePage:
    """An action under way or ended; for a preview, with what it found."""

    action: ActionProcess
    at: datetime

    @property
    def title(self) -> str:
        return TITLES[self.action.request.kind]

    @property
    def preview(self) -> ActionProcess | None:
        """The preview that the user can agree to: this one, or a new one made because the flow has moved."""
        return self.action if self.action.preview else self.action.again

    @property
    def risky(self) -> bool:
        return bool(self.preview and any(one.get("dangers") for one in self.preview.flows))

    @property
    def agreed(self) -> bool:
        """Whether there is a preview that the user can agree to."""
        preview = self.preview
        return bool(preview and preview.code == 0 and preview.flows and preview.document.get("preview"))


def make_action_page(snapshots: FleetSnapshots, request: ActionRequest) -> ActionPage | None:
    """The page of this request; None if the project has no such flow in its ledger."""
    pipeline = snapshots.project.pipeline
    found = make_flow_page(snapshots, pipeline, request.flow)
    if found is None:
        return None
    names = [one.flow for one in snapshots.read().flows if one.pipeline == pipeline]
    try:
        check_means_one(request.flow, names)
        refused = find_refusal(found, request.kind)
    except TidegaugeError as error:
        refused = f"{error.sentence}: {error.hint}"
    suspended = found.status.suspended
    revision = name_revision(found.status.revision, suspended.at.isoformat() if suspended else "")
    return ActionPage(found.at, request, found.seen, _tell(found, request.kind), refused, revision)


def name_revision(revision: FlowRevision, suspended: str) -> str:
    return f"{revision.fence}/{revision.plan_id or ''}/{revision.done}/{suspended}"


def find_refusal(page: FlowPage, kind: ActionKind) -> str:
    """Why this action cannot be done on the flow as it is now; empty if it can."""
    if kind.changes and page.held:
        owner = page.status.owner
        who = f"{owner.actor}, process {owner.pid}," if owner else "A runner"
        return f"{who} is at work on it. Wait until its run has ended."
    if kind is ActionKind.RETRY and page.plan is None:
        return "It has no plan that failed or was left: there is nothing to try again."
    if kind is ActionKind.RESUME and page.status.suspended is None:
        above = page.seen.summary.suspended
        return f"It is suspended with its pipeline, by {above.actor}." if above else "It is not suspended."
    if kind is ActionKind.SUSPEND and page.status.suspended is not None:
        return f"It is suspended already, by {page.status.suspended.actor}."
    return ""


def _tell(page: FlowPage, kind: ActionKind) -> str:
    """A sentence that says what the action would do to the flow."""
    match kind:
        case ActionKind.RETRY:
            covers = page.plan.covers if page.plan else "nothing"
            return (
                "Tries the plan again that was left, with the same windows, and plans nothing new. It covers"
                f" {covers}."
            )
        case ActionKind.SUSPEND:
            return (
                "From now on nobody runs it, until it is resumed. What comes meanwhile waits in its source."
            )
        case ActionKind.RESUME:
            return "It may run again; what has come since waits for its next run."
        case ActionKind.SET:
            return "It goes on from another position; what is in the target stays."
        case ActionKind.RESET:
            return "It begins again at the beginning, in a new epoch."
        case ActionKind.VERIFY:
            return (
                "Compares source and target key by key, up to the watermark. It reads both, changes neither,"
                " and keeps what it finds in the history."
            )
