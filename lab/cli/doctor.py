"""``raidlab doctor`` shows what this computer and the machine can do, what is missing, and how to fix it."""

from __future__ import annotations

from lab.cli.context import current, table
from lab.doctor import DoctorReport, Subject, check_computer, check_machine, machine_kinds
from lab.errors import ExitCode
from lab.machine import TargetKind, open_machine


def doctor(*, machine: bool = False) -> int:
    """Check this computer for the chosen target and, with ssh: or vagrant:, also check the machine.

    Exits with status 3 if a requirement of the target is missing.

    Parameters
    ----------
    machine
        Also open a machine on this computer (uml:, local:), to check its drivers and the capabilities of its md.
    """
    context = current()
    reports = [check_computer(context.host, target=str(context.target))]
    is_elsewhere = context.target.kind in (TargetKind.SSH, TargetKind.VAGRANT)
    if (machine or is_elsewhere) and reports[0].is_ready:
        with open_machine(context.target, context.host, on_notice=context.narrator.notice) as opened:
            reports.append(check_machine(opened))
    context.out(reports[0] if len(reports) == 1 else reports, "\n\n".join(_text(report) for report in reports))
    return max(ExitCode.DONE, *(report.exit_code for report in reports))


def _text(report: DoctorReport) -> str:
    rows = [(check.outcome, check.title, check.detail) for check in report.checks]
    lines = [table((report.name, "", ""), rows)]
    for check in report.missing:
        need = f"needed for {', '.join(check.required_for)}" if check.required_for else ", ".join(check.useful_for)
        lines.append(f"missing: {check.title} ({need})" + (f"\n  next: {check.fix}" if check.fix else ""))
    if report.install_command:
        lines.append(f"to install all missing packages:\n  {report.install_command}")
    if report.subject is Subject.COMPUTER:
        kinds = [
            (kind.target, "yes" if is_ready else "no", kind.starts_in, kind.shows, kind.does_not_show)
            for kind, is_ready in machine_kinds(report)
        ]
        lines.append(table(("machine", "ready", "starts in", "shows", "does not show"), kinds))
    verdict = "ready" if report.is_ready else "not ready"
    lines.append(f"{report.target} is {verdict}; works here: {', '.join(report.ready_targets()) or 'none'}")
    return "\n\n".join(lines)
