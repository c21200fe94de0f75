"""The routes of files: what a run keeps and what it used of others, one file, and keeping and removing one."""

from contextlib import suppress
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Path, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse

from app.api.errors import described
from app.api.lab_routes import acting
from app.api.launch_routes import TIMEOUT_S, Owner
from app.api.run_routes import RunId
from app.api.run_shapes import Asked, Body, Count, Id, Moment, Shape, left_out
from app.auth.bearer import API
from app.core.assets import at
from app.core.caches import NEVER_STORE
from engine.commands.kept_files import keep_file, remove_file
from engine.errors import ConfigError, EngineError, NoSuchFile
from engine.home import Home
from engine.store import Reader, Store
from engine.store.runs.files import LARGEST_FILE, FileContent, KeptFile, UsedFile, content_path
from engine.system.file_views import FileKind, view_of

router = APIRouter()
SANDBOX = {"content-security-policy": "sandbox; default-src 'none'", "x-content-type-options": "nosniff"}
"""Headers of a file's bytes: a browser that opens them runs and loads nothing."""
PICTURES = ("image/png", "image/jpeg")
_BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
Name = Annotated[str, Path(description="The file's name: 1 to 200 visible characters, without / and \\.")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the content, in hexadecimal digits.")]


class FileTold(Shape):
    """A file that a run keeps."""

    name: str
    sha256: Digest
    bytes: Count = Field(description="Its size.")
    kind: FileKind = Field(description="What its bytes are; pages show pictures (PNG and JPEG), tables and texts.")
    at: Moment = Field(description="When it was kept.")
    who: str = Field(description="Who kept it; `worker` for what a command left in its folder of files.")
    used_by: list[Id] = Field(description="Runs that used this content.")


class UseTold(Shape):
    """A file of other runs that a run used."""

    name: str = Field(description="Its name when it was used.")
    sha256: Digest
    at: Moment = Field(description="When it was used.")
    who: str = Field(description="Who recorded that.")
    kept_by: list[Id] = Field(description="Runs that keep this content, the first one before those that keep a copy.")


class FileList(Shape):
    """The files of a run."""

    run_id: Id
    files: list[FileTold]
    used: list[UseTold]


class Whose(Asked):
    """Query parameters of a change of files."""

    owner: str | None = Field(
        None,
        json_schema_extra=left_out,
        max_length=60,
        description="Person in a lab without accounts; otherwise it is the token's.",
    )


class Keeping(Whose):
    """Query parameters of a file to keep."""

    sha256: Digest | None = Field(
        None, json_schema_extra=left_out, description="What the content must have; otherwise nothing is kept."
    )


class Using(Body):
    """Content that a run used."""

    sha256: Digest
    owner: Owner = None


@router.get("/runs/{run_id}/files", summary="List files", responses={404: described("Unknown run.")})
def files(run_id: RunId) -> FileList:
    """Return the files that a run keeps, and those of other runs that it used."""
    with Reader.open(Home.find()) as reader:
        reader.runs.one(run_id)
        return file_list(reader, run_id)


@router.get(
    "/runs/{run_id}/files/{name:path}",
    summary="Read a file",
    response_class=FileResponse,
    responses={
        200: {
            "description": "Its bytes.",
            "content": {"application/octet-stream": _BINARY} | dict.fromkeys(PICTURES, _BINARY),
        },
        206: {"description": "The requested range of its bytes.", "content": {"application/octet-stream": _BINARY}},
        404: described("Unknown run or file."),
        416: described("No such range."),
    },
)
def file(run_id: RunId, name: Name) -> Response:
    """Return a file's bytes as they were kept, for download: nothing in them is executed or interpreted."""
    home = Home.find()
    with Reader.open(home) as reader:
        found = reader.files.one(run_id, name)
    path = content_path(home, found.sha256)
    if not path.is_file():
        raise NoSuchFile(f"The content of '{name}' of run {run_id} is missing. Run python -m engine fsck.")
    view = view_of(path, found.name)
    headers = NEVER_STORE | SANDBOX | {"etag": f'"{found.sha256}"'}
    return FileResponse(path, media_type=view.media_type, filename=found.name, headers=headers)


@router.put(
    "/runs/{run_id}/files/{name:path}",
    status_code=201,
    summary="Keep a file",
    openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": _BINARY}}},
    responses={
        200: {"model": FileTold, "description": "The run has this content under this name already."},
        201: {
            "description": "The file; it is on disk.",
            "headers": {"Location": {"description": "URL of the file.", "schema": {"type": "string"}}},
        },
        400: described("The request body ended early."),
        404: described("Unknown run."),
        413: described(f"The request body exceeds {LARGEST_FILE // 1024:,} KB."),
    },
)
async def keep(
    run_id: RunId, name: Name, asked: Annotated[Keeping, Query()], request: Request, response: Response
) -> FileTold:
    """Keep the request's body as a file of a run, in place of one of this name; the same content again changes nothing.
    Requires a token with scope launch; quotas of files and of disk apply.
    """
    home, by = Home.find(), acting(request, asked.owner)
    declared = request.headers.get("content-length", "")
    content = await run_in_threadpool(FileContent, home)
    try:
        await run_in_threadpool(_check, home, run_id, name, int(declared) if declared.isdecimal() else 0, by)
        async for piece in request.stream():
            if piece:
                await run_in_threadpool(content.write, piece)
        if asked.sha256 not in (None, content.sha256):
            sentence = f"sha256 must be that of the content, {content.sha256}; got {asked.sha256}. Send it again."
            raise ConfigError.of("sha256", sentence)
        found, is_new = await run_in_threadpool(_keep, home, run_id, name, content, by)
    except EngineError:
        with suppress(RuntimeError):  # all of it has come
            async for _ in request.stream():
                pass  # a program that is still sending would not read the refusal
        raise
    except ClientDisconnect:
        raise HTTPException(400, "The request body ended before its end.") from None
    finally:
        await run_in_threadpool(content.discard)
    response.headers["location"] = at(f"{API}/runs/{run_id}/files/{quote(name, safe='')}")
    if not is_new:
        response.status_code = 200
    return found


@router.delete(
    "/runs/{run_id}/files/{name:path}",
    status_code=204,
    summary="Remove a file",
    responses={204: {"description": "It is removed."}, 404: described("Unknown run or file.")},
)
def remove(run_id: RunId, name: Name, asked: Annotated[Whose, Query()], request: Request) -> Response:
    """Remove a file of a run; its content goes where no other run keeps it. Requires a token with scope launch."""
    with Store.open(Home.find(), timeout_s=TIMEOUT_S) as store:
        remove_file(store, run_id, name, by=acting(request, asked.owner))
    return Response(status_code=204)


@router.post(
    "/runs/{run_id}/uses",
    summary="Record that a run used a file",
    responses={
        400: described("Invalid request body."),
        404: described("Unknown run, or no other run keeps this content."),
        413: described("The request body is too large."),
    },
)
def use(run_id: RunId, asked: Using, request: Request) -> UseTold:
    """Record that a run used content that another run keeps; again changes nothing. Requires a token with scope
    launch.
    """
    with Store.open(Home.find(), timeout_s=TIMEOUT_S) as store:
        found = store.files.use(run_id, asked.sha256, by=acting(request, asked.owner))
        return _use(store.read, found)


def file_list(reader: Reader, run_id: int) -> FileList:
    """Return the files of a run with what other runs have to do with them."""
    kept, used = reader.files.of([run_id]), reader.files.used(run_id)
    users = reader.files.users(each.sha256 for each in kept)
    return FileList(
        run_id=run_id,
        files=[_told(reader.db.home, each, users.get(each.sha256, [])) for each in kept],
        used=[_use(reader, each) for each in used],
    )


def _told(home: Home, found: KeptFile, used_by: list[int]) -> FileTold:
    same = {name: getattr(found, name) for name in FileTold.model_fields if hasattr(found, name)}
    return FileTold(**same, kind=view_of(content_path(home, found.sha256), found.name).kind, used_by=used_by)


def _use(reader: Reader, found: UsedFile) -> UseTold:
    makers = reader.files.makers([found.sha256]).get(found.sha256, [])
    same = {name: getattr(found, name) for name in UseTold.model_fields if hasattr(found, name)}
    return UseTold(**same, kept_by=[run_id for run_id in makers if run_id != found.run_id])


def _check(home: Home, run_id: int, name: str, bytes_: int, by: str) -> None:
    with Store.open(home, timeout_s=TIMEOUT_S) as store:
        store.files.check(run_id, name, bytes_, by=by)


def _keep(home: Home, run_id: int, name: str, content: FileContent, by: str) -> tuple[FileTold, bool]:
    with Store.open(home, timeout_s=TIMEOUT_S) as store:
        found, is_new = keep_file(store, run_id, name, content, by=by)
        return _told(home, found, store.read.files.users([found.sha256]).get(found.sha256, [])), is_new
