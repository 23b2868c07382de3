"""The two classes that a job names: one runs at the server, one at each site.

A job carries no code and no data, only these names and the settings of the run. What a site
computes with is what the site itself has put into its start-up kit.
"""

import json
import logging
import re
import sys
import threading
from pathlib import Path
from typing import Any

from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.job_def import JobMetaKey
from nvflare.collab import collab
from nvflare.collab.api.exceptions import RunAborted
from nvflare.fuel.utils.log_utils import get_obj_logger

from pdmm.common.whole_files import private_folder, write_whole
from pdmm.engines.sites.roster import SiteError, SiteForgotError, SiteLostError
from pdmm.flare import wire
from pdmm.flare.connection import FlareConnection
from pdmm.flare.lost_sites import in_words
from pdmm.flare.names import OUTCOME, SETTINGS
from pdmm.flare.ownership import OWNER
from pdmm.flare.private_errors import TOLD, keep_error, keep_others_out
from pdmm.flare.reports import Reports
from pdmm.privacy.refusals import Refused

# Where PyTorch is installed, FLARE would load it in each job's processes, which takes seconds, for
# tensors that no job of pdmm sends.
for part in ("decomposers", "tensor_downloader"):
    sys.modules.setdefault(f"nvflare.app_opt.pt.{part}", None)  # type: ignore[arg-type]

PROGRESS = "pdmm_progress"  # the app command by which an admin asks how far a run is
RESULT = "pdmm"  # the folder of a job's result, and of a server's kit, that is ours
ENDED = "the site's function ended the process by sys.exit, or as if by Ctrl-C, which it must not"


class Server:
    """Runs at the server: calls `pdmm.flare.server_run.run` with the settings of the job."""

    def __init__(self) -> None:
        self._reports = Reports()

    @collab.main  # type: ignore[untyped-decorator]  # FLARE has no types
    def main(self) -> None:
        """The whole job, from FLARE's side."""
        # here, not above: sites need none of it
        from pdmm.flare.server_run import run

        _quiet()
        context, workspace = collab.fl_ctx, collab.workspace
        job = context.get_job_id()
        out = Path(workspace.get_result_root(job)) / RESULT
        private_folder(out)
        outcome: dict[str, Any] = {"finished": False}
        try:
            path = Path(workspace.get_app_config_dir(job)) / SETTINGS
            settings = json.loads(path.read_text(encoding="utf-8"))
            # who submitted is what FLARE has verified, whatever the job says
            meta = context.get_prop(FLContextKey.JOB_META) or {}
            settings[OWNER] = meta.get(JobMetaKey.SUBMITTER_NAME.value)
            runs = Path(workspace.get_root_dir()) / RESULT
            private_folder(runs)
            context.get_engine().register_app_command(PROGRESS, self._reported)
            proxies = {proxy.name: proxy for proxy in collab.context.clients}
            connection = FlareConnection(proxies, collab.context.abort_signal)
            self._reports.connection = connection
            run(settings, connection, runs / run_name(settings), out, self._reports.add)
            outcome["finished"] = True
        except RunAborted as abort:
            unanswered = getattr(abort, "unanswered", [])
            outcome["failure"] = in_words(unanswered, self._reports.done)
            outcome["unanswered"] = unanswered
            outcome["round"] = self._reports.done
            raise
        except Exception as error:
            known = isinstance(error, SiteLostError) or type(error) is ValueError
            known = known or isinstance(error, SiteError)
            outcome["failure"] = str(error) if known else f"{type(error).__name__}: {error}"
            # what was asked for or answered is wrong, and will be wrong again
            wrong = isinstance(error, ValueError | TypeError | KeyError)
            outcome["final"] = wrong and not isinstance(error, SiteForgotError)
            raise
        finally:
            outcome |= self._reports.kept()
            outcome["checkpoint"] = self._reports.now().get("checkpoint")
            write_whole(out / OUTCOME, json.dumps(outcome).encode(), private=True)

    def _reported(self, topic: str, data: Any, context: Any) -> dict[str, Any]:
        return self._reports.answer(data)


class Site:
    """Runs at a site: answers the server's questions, one at a time, with the site's problem."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest = 0
        self._site: Any = None
        self._logger = get_obj_logger(self)
        _quiet()
        keep_others_out()

    @collab.publish  # type: ignore[untyped-decorator]  # FLARE has no types
    def answer(self, number: int, verb: str, payload: bytes) -> dict[str, Any]:
        """The reply to a question, or `{"error": ...}` with what went wrong in words."""
        # before the lock: a call that has waited behind a newer one is one nobody waits for
        self._newest = max(self._newest, number)
        with self._lock:
            if number < self._newest:
                return {"error": f"Superseded: call {number} came after call {self._newest}"}
            try:
                if self._site is None:
                    self._site = self._made()
                return {"reply": wire.encode(self._site.answer(verb, wire.decode(payload)))}
            except BaseException as error:
                # FLARE would send the text of any error to the server, or take it for silence
                return {"error": self._told(error)}

    def _told(self, error: BaseException) -> str:
        """What others may know of an error; all of it is kept in the kit."""
        kind = type(error).__name__
        try:
            kept = keep_error(Path(collab.workspace.get_root_dir()))
            self._logger.error("%s: see %s", kind, kept)
        except Exception as failure:  # FLARE would send its text too
            self._logger.error("%s: its text could not be kept, %s", kind, type(failure).__name__)
        if isinstance(error, SystemExit | KeyboardInterrupt | GeneratorExit):
            return f"{kind}: {ENDED}"
        if isinstance(error, Refused):  # whose reason is in the site's audit alone
            return f"{kind}: {error}"
        # a message may quote the site's data, unless it is one that pdmm made for this
        return f"{kind}: {error if isinstance(error, SiteError) else TOLD}"

    @staticmethod
    def _made() -> Any:
        # here, not above: the server needs none of it
        from pdmm.flare.site_kit import site_of_kit, submitter

        workspace = collab.workspace
        job = Path(workspace.get_run_dir(collab.fl_ctx.get_job_id()))
        return site_of_kit(Path(workspace.get_root_dir()), submitter(job))


def _quiet() -> None:
    """FLARE would log several lines for every question and answer."""
    logging.getLogger("nvflare.collab").setLevel(logging.WARNING)


def run_name(settings: dict[str, Any]) -> str:
    """The run's name, which is also the name of a folder at the server."""
    name = settings.get("run")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", name):
        raise ValueError(
            f"settings['run'] is {name!r}: must be up to 100 letters, digits, '_', '-' and '.', "
            "and not begin with '.' or '-'"
        )
    return name
