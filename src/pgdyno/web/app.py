"""The dashboard as an ASGI application: routes to pages, data and events.

Every request only reads the store, but for what an operator asks of a study: that is put on record there.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pgdyno.errors import PgdynoError, UsageError
from pgdyno.model.live import Live
from pgdyno.model.shapes import plain
from pgdyno.model.study import Study
from pgdyno.store.catalogue import Store
from pgdyno.store.queue import Queue
from pgdyno.web.access import ACTED, Access, AccessGate
from pgdyno.web.cards import StudyCard
from pgdyno.web.crowd import ConnectionLimits, Seats, peer_of
from pgdyno.web.operator_door import REQUESTS
from pgdyno.web.overview import Overview, OverviewReader, StudyRow
from pgdyno.web.pages import (
    FILES,
    Acting,
    card_on_page,
    missing_page,
    overview_page,
    overview_parts,
    static_file,
    title_of,
)
from pgdyno.web.requesting import record_request

EVENT_S = 1.0
NOBODY = Acting()
KEPT_REPORTS = 8
"""Pages of studies that are kept as made: each has the charts' scripts inside, over a megabyte."""
MOST_PAGES = 100_000
LONGEST_NAME, LONGEST_NUMBER = 200, 18


class Dashboard:
    """Answers from one store. Pages of studies are kept until their study changes."""

    def __init__(self, store: Store, is_over: Callable[[Study, Live], bool] = lambda _study, _live: False) -> None:
        self._store = store
        self._reader = OverviewReader(store, is_over=is_over)
        self._drawing, self._building = threading.Lock(), threading.Lock()
        self._drawn: tuple[Overview, dict[str, str]] | None = None
        self._reports: OrderedDict[tuple[str, str, str], str] = OrderedDict()

    def front(self, page: int, acting: Acting = NOBODY) -> str:
        """Return the first page, or an older page of the list of studies."""
        return overview_page(self._reader.page(page), acting)

    def event(self, acting: Acting = NOBODY) -> str:
        """Return what the first page replaces, as one event of Server-Sent Events; an error is an event as well."""
        try:
            overview = self._reader.latest()
        except PgdynoError as error:
            return f"event: refused\ndata: {json.dumps(str(error))}\n\n"
        with self._drawing:  # all readers get the same: the page may stand on the host that is measured
            if self._drawn is None or self._drawn[0] is not overview:
                self._drawn = overview, {}
            drawn = self._drawn[1]
            if acting.word not in drawn:  # an operator's forms are theirs alone
                head = {"at": f"as of {overview.at}", "title": title_of(overview)}
                told = json.dumps({**head, **overview_parts(overview, acting)})
                drawn[acting.word] = f"event: overview\ndata: {told}\n\n"
            return drawn[acting.word]

    def study(self, name: str, wanted: str, acting: Acting = NOBODY) -> str:
        """Return the report of a study as `html` or `json`. Raises UsageError when it is not there.

        The page of one under way has its card above, which moves as on the first page.
        """
        study = self._store.study(name)
        counts = self._store.trial_counts().get(study.id, {})
        card = next((one for one in self._reader.latest().cards if one.live.study == study.id), None)
        # a live study has no trials, and tells its result while it runs; one that was killed still says to run
        told = zlib.crc32(repr(study.result).encode())
        standing = study.state, card is None, card is not None and card.silent_s is not None
        key = study.id, wanted, f"{standing} {sorted(counts.items())} {told}"
        with self._building:  # one at a time: a study of thousands of trials takes its second of CPU
            if key not in self._reports:
                self._reports[key] = _report(self._store, study.id, wanted, card is not None)
                while len(self._reports) > KEPT_REPORTS:
                    self._reports.popitem(last=False)
            self._reports.move_to_end(key)
            text = self._reports[key]
        return text if card is None or wanted == "json" else _with_card(text, card, acting)

    def target(self, name: str) -> str:
        """Return the page of a target. Raises UsageError for one without a study."""
        with self._building:
            return _drawn_target(self._store, name)

    def beside(self, first: str, second: str) -> str:
        """Return the page of two studies. Raises UsageError when one is not there."""
        with self._building:
            return _drawn_beside(self._store, first, second)

    def run(self, number: int) -> str:
        """Return the page of one run. Raises UsageError when it is not there."""
        with self._building:
            return _drawn_run(self._store, number)

    def live(self) -> object:
        """Return what runs, as data: what the first page has a card of."""
        return {"running": [card.live.to_json() for card in self._reader.latest().cards]}

    def studies(self, page: int) -> object:
        """Return a page of the list of studies, as data."""
        rows = self._reader.page(page).rows
        return {"page": page, "studies": [_study_json(row) for row in rows]}

    def queue(self) -> object:
        """Return all jobs, as data."""
        return {"jobs": [asdict(job) for job in Queue(self._store).jobs()]}


def _report(store: Store, study: str, wanted: str, moves: bool) -> str:
    """Make a report; what makes one is loaded with the first of them, not with the dashboard."""
    from pgdyno.report.drawing.html import Moving, render
    from pgdyno.report.drawing.payload import report_json
    from pgdyno.studies.reports import build_report

    report = build_report(store, study)
    if wanted == "json":
        return report_json(report)
    script, style = (static_file(name)[0].decode() for name in ("live.js", "live.css"))
    return render(report, home="/", moving=Moving((script,), (style,)) if moves else None)


def _with_card(page: str, card: StudyCard, acting: Acting) -> str:
    from pgdyno.report.drawing.html import PLACE

    return page.replace(PLACE, PLACE.replace("></", f">{card_on_page(card, acting)}</"), 1)


def _drawn_target(store: Store, name: str) -> str:
    from pgdyno.report.drawing.html import render
    from pgdyno.studies.target_page import build_target_page

    return render(build_target_page(store, name), home="/")


def _drawn_beside(store: Store, first: str, second: str) -> str:
    from pgdyno.report.drawing.html import render
    from pgdyno.studies.beside import build_studies_beside

    return render(build_studies_beside(store, first, second), home="/")


def _drawn_run(store: Store, number: int) -> str:
    from pgdyno.report.drawing.html import render
    from pgdyno.studies.bench.run import run_record
    from pgdyno.studies.reports import build_run_report

    trial = store.trial(number)
    return render(build_run_report(store, run_record(store, store.study(trial.study_id), trial)), home="/")


def _study_json(row: StudyRow) -> dict[str, object]:
    """Return what a list of studies has of one, with the page's `word` for it; its report has the rest."""
    study = row.study
    verdict = None if study.result is None else plain(study.result.headline)
    return {
        "study": study.id, "kind": study.kind, "name": study.name, "state": study.state, "word": row.word,
        "created_at": study.created_at, "target": study.target, "workload": study.workload.name, "verdict": verdict,
    }  # fmt: skip


class _Events(StreamingResponse):
    """A page that is open and moving: it has a seat for as long as its client is there."""

    def __init__(self, seats: Seats, event: Callable[[], str], event_s: float, is_ending: Callable[[], bool]) -> None:
        super().__init__(self._stream(), media_type="text/event-stream")
        self._seats, self._event, self._event_s, self._is_ending = seats, event, event_s, is_ending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._seat = self._seats.take(peer_of(scope.get("client")))
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._seats.give_back(self._seat)

    async def _stream(self) -> AsyncIterator[str]:
        while not self._is_ending() and not self._seat.is_lost:
            yield await run_in_threadpool(self._event)
            await asyncio.sleep(self._event_s)


class _Reports:
    """Reports by their addresses, each of which it takes for what it names or refuses."""

    def __init__(self, dashboard: Dashboard, acting: Callable[[Request], Acting]) -> None:
        self._dashboard, self._acting = dashboard, acting

    async def study(self, request: Request) -> Response:
        whole = _name(request.path_params["name"], "a study")
        name, dot, wanted = whole.rpartition(".")
        if not dot or wanted != "json":
            return _report_page(await run_in_threadpool(self._dashboard.study, whole, "html", self._acting(request)))
        return Response(await run_in_threadpool(self._dashboard.study, name, "json"), media_type="application/json")

    async def target(self, request: Request) -> Response:
        name = _name(request.query_params.get("name", ""), "a target")
        return _report_page(await run_in_threadpool(self._dashboard.target, name))

    async def beside(self, request: Request) -> Response:
        both = [_name(request.query_params.get(which, ""), "a study") for which in ("first", "second")]
        return _report_page(await run_in_threadpool(self._dashboard.beside, *both))

    async def run(self, request: Request) -> Response:
        text = request.path_params["number"]
        if not (text.isascii() and text.isdecimal()) or len(text) > LONGEST_NUMBER:
            raise UsageError("that is not the number of a run")
        return _report_page(await run_in_threadpool(self._dashboard.run, int(text)))


async def _static(request: Request) -> Response:
    """Return one of the files that pages load; no other file of this machine has an address."""
    if request.path_params["name"] not in FILES:
        return PlainTextResponse("not here\n", 404)
    content, media_type = static_file(request.path_params["name"])
    return Response(content, media_type=media_type, headers={"cache-control": "max-age=3600"})


def _data(read: Callable[[Request], object]) -> Callable[[Request], object]:
    """Return what answers with data as JSON."""

    async def answer(request: Request) -> Response:
        found = await run_in_threadpool(read, request)
        try:
            return JSONResponse(found)
        except ValueError:  # an infinite figure, which JSON has not
            return JSONResponse(_finite(found))

    return answer


def make_app(
    store: Store,
    access: Access,
    *,
    event_s: float = EVENT_S,
    is_ending: Callable[[], bool] = lambda: False,
    limits: ConnectionLimits | None = None,
    is_over: Callable[[Study, Live], bool] = lambda _study, _live: False,
) -> ASGIApp:
    """Return the application.

    It shows `store` to those whom `access` lets in. `event_s` is the time in seconds between two events to a page that
    is open; events end when `is_ending`. `limits` bounds how many pages may be open, None for the defaults. `is_over`
    as in `OverviewReader`.
    """
    dashboard, seats = Dashboard(store, is_over), Seats(limits or ConnectionLimits())
    door = access.door

    def acting(request: Request) -> Acting:
        session = None if door is None else door.session(request)
        return Acting(door is not None) if session is None else Acting(True, session.name, session.word)

    async def events(request: Request) -> Response:
        if request.method == "HEAD":  # it would be open without end, and get nothing
            return Response(media_type="text/event-stream")
        by = acting(request)
        return _Events(seats, lambda: dashboard.event(by), event_s, is_ending)

    async def front(request: Request) -> Response:
        return HTMLResponse(await run_in_threadpool(dashboard.front, _page(request), acting(request)))

    async def asked(request: Request) -> Response:
        assert door is not None, "the route is there for operators alone"
        who, form = request.scope["state"][ACTED]
        await run_in_threadpool(record_request, store, door.operators, who, form)
        return RedirectResponse("/", 303)

    reports = _Reports(dashboard, acting)
    routes = [
        Route("/", front),
        Route("/events", events),
        Route("/studies/{name}", reports.study),
        Route("/target", reports.target),
        Route("/beside", reports.beside),
        Route("/runs/{number}", reports.run),
        Route("/static/{name}", _static),
        Route("/api/v1/live.json", _data(lambda _: dashboard.live())),
        Route("/api/v1/studies.json", _data(lambda request: dashboard.studies(_page(request)))),
        Route("/api/v1/queue.json", _data(lambda _: dashboard.queue())),
    ]
    if door is not None:
        routes.append(Route(REQUESTS, asked, methods=["POST"]))
    starlette = Starlette(routes=routes, exception_handlers={PgdynoError: _refused, 404: _missing})
    starlette.router.redirect_slashes = False
    return AccessGate(starlette, access)


def _finite(value: object) -> object:
    """Return data without the numbers that JSON has not: they become null."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _name(text: str, of: str) -> str:
    if not text or len(text) > LONGEST_NAME or not text.isprintable():
        raise UsageError(f"that is not the name of {of}")
    return text


def _report_page(text: str) -> Response:
    """Return a report: it carries its own policy, which admits its scripts by their hashes."""
    return HTMLResponse(text, headers={"content-security-policy": "frame-ancestors 'none'"})


def _page(request: Request) -> int:
    text = request.query_params.get("page", "0")
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(MOST_PAGES)) or int(text) > MOST_PAGES:
        raise UsageError(f'page "{text[:LONGEST_NAME]}" is not a page number')
    return int(text)


async def _refused(request: Request, error: Exception) -> Response:
    """Say what could not be read, in the words of the command line."""
    status = (400 if request.method == "POST" else 404) if isinstance(error, UsageError) else 503
    if "text/html" in request.headers.get("accept", ""):
        return HTMLResponse(missing_page(str(error)), status)
    return JSONResponse({"error": str(error)}, status)


async def _missing(request: Request, _error: Exception) -> Response:
    return HTMLResponse(missing_page(f'There is nothing at "{request.scope["path"][:LONGEST_NAME]}"'), 404)
