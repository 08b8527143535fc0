"""Puts the stores of the table into their places, each with its fault, and takes the fault away again.

    with Places(folder) as places:
        source = places.source(cell)          # url, environment, mend()

A store is made once for all commands that only read it.
"""

import base64
import os
import pathlib
import shutil
import socket
import stat
import threading
import zipfile
import zlib
from dataclasses import dataclass

import silence
import silence_server
from silence_stores import as_json

SPARSE_BYTES = 64 << 30
STORE = silence_server.STORE


@dataclass(frozen=True)
class Source:
    url: str
    environment: dict
    mend: object


class Places:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.server = silence_server.Server()
        self.made, self.count, self.lock = {}, 0, threading.Lock()

    def __enter__(self):
        self.server.__enter__()
        return self

    def __exit__(self, *_):
        self.server.__exit__()
        make_removable(self.folder)

    def source(self, cell, own=False):
        """The store of a cell; one of its own where it will be changed."""
        if own:
            return self.make(cell)
        case = (cell.place, cell.layout, cell.target, cell.fault.name)
        with self.lock:
            known = self.made.setdefault(case, [threading.Lock(), None])
        with known[0]:
            known[1] = known[1] or self.make(cell)
            return known[1]

    def new_folder(self, name):
        with self.lock:
            self.count += 1
            folder = self.folder / f"{name}{self.count}"
        folder.mkdir()
        return folder

    def make(self, cell):
        files = silence.files_of(cell.layout, silence.nodes_of(cell))
        if cell.fault.content:
            body = files[cell.target.key]
            broken = {**files, cell.target.key: cell.fault.content(body)}
        else:
            broken = files
        if cell.place in silence_server.PLACES:
            return self.serve(cell, files, broken)
        folder = self.new_folder("d")
        return WRITERS[cell.place](folder, cell, files, broken)

    def serve(self, cell, files, broken):
        with self.lock:
            self.count += 1
            name = f"c{self.count}"
        fault = cell.fault.name if cell.fault.family in silence_server.FAMILIES else None
        self.server.put(name, broken, cell.target.key if fault else None, fault)
        url = self.server.url(cell.place, name)
        return Source(url, self.server.environment(cell.place), lambda: self.server.put(name, files))


def make_removable(folder):
    """Gives back the permissions without which its owner could not remove it."""
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                os.chmod(path, 0o755)


# ---- folders ----------------------------------------------------------------------------------------------------


def write_files(root, files):
    for key, body in files.items():
        file = root / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)


def write_directory(folder, cell, files, broken):
    root = folder / STORE
    write_files(root, broken)
    path = root / cell.target.key
    if cell.fault.family == "folder":
        break_folder(path, cell.fault.name.removeprefix("folder: "), folder / "outside")
    elif not cell.fault.content and cell.target.key:
        break_file(path, cell.fault.name, folder / "outside")

    def mend():
        if cell.fault.family == "folder":
            if path.is_symlink():
                path.unlink()
            else:
                path.chmod(0o755)
        elif cell.target.key and cell.fault.name == "permission denied":
            path.chmod(0o644)
        elif cell.target.key:
            remove(path)
        for key, body in files.items():
            if not (root / key).is_file() or (root / key).read_bytes() != body:
                write_files(root, {key: body})

    return Source(str(root), {}, mend)


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def break_file(path, fault, outside):
    """Puts something else into the place of a file."""
    if fault == "permission denied":
        return path.chmod(0)
    body = path.read_bytes()
    path.unlink()
    if fault == "directory":
        path.mkdir()
    elif fault == "FIFO":
        os.mkfifo(path, 0o666)
    elif fault == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
        path.chmod(0o666)
    elif fault == "link out of the store":
        outside.write_bytes(body)
        path.symlink_to(outside)
    elif fault == "dangling link":
        path.symlink_to("nowhere")
    elif fault == "link loop":
        path.symlink_to(path.name)
    elif fault == "sparse file of 64 GB":
        path.write_bytes(body)
        os.truncate(path, SPARSE_BYTES)
    else:
        raise ValueError(fault)
    return None


def break_folder(path, fault, outside):
    if fault == "link out of the store":
        path.rename(outside)
        path.symlink_to(outside)
    elif fault == "dangling link":
        shutil.rmtree(path)
        path.symlink_to("nowhere")
    else:
        # for the owner and for everybody else alike
        path.chmod({"not listable": 0o311, "not searchable": 0o444, "permission denied": 0}[fault])


# ---- zip files --------------------------------------------------------------------------------------------------


def write_zip(folder, cell, files, broken):
    path = folder / f"{STORE}.zip"

    def write(members, fault):
        with zipfile.ZipFile(path, "w") as archive:
            for key, body in members.items():
                if fault and key == cell.target.key:
                    write_broken_member(archive, key, body, fault)
                else:
                    archive.writestr(key, body)

    named = cell.fault.name.removeprefix("member: ") if cell.fault.family == "zip member" else None
    write(broken, named)
    return Source(str(path), {}, lambda: write(files, None))


def write_broken_member(archive, key, body, fault):
    """Writes a member of which the bytes or the central directory are wrong."""
    stored = {"encrypted": bytes(12) + bytes(byte ^ 0x5A for byte in body), "link": f"../outside/{key}".encode()}
    archive.writestr(key, stored.get(fault, body))
    member = archive.infolist()[-1]
    if fault == "wrong CRC":
        member.CRC ^= 1
    elif fault == "encrypted":
        member.flag_bits |= 1
        member.CRC, member.file_size = zlib.crc32(body), len(body)
    elif fault == "unknown compression":
        member.compress_type = 99
    elif fault == "claims 64 GB":
        member.file_size = member.compress_size = SPARSE_BYTES
    elif fault == "beyond the end":
        member.header_offset += 1 << 20
    elif fault == "link":
        member.external_attr = (stat.S_IFLNK | 0o777) << 16
        member.create_system = 3
    else:
        raise ValueError(fault)


# ---- references -------------------------------------------------------------------------------------------------


def write_references(folder, cell, files, broken):
    path = folder / "references.json"
    (folder / "chunks.bin").write_bytes(b"".join(broken.values()))

    def entries(members):
        found, start = {}, 0
        for key, body in members.items():
            if key.rsplit("/", 1)[-1] in (".zgroup", ".zarray", ".zattrs", ".zmetadata", "zarr.json"):
                found[key] = as_text(body)
            else:
                found[key] = ["chunks.bin", start, len(body)]
            start += len(body)
        return found

    found = entries(broken)
    if cell.fault.family == "reference":
        found[cell.target.key] = broken_reference(folder, cell.fault.name, files[cell.target.key])
    path.write_bytes(as_json({"version": 1, "refs": found}))

    def mend():
        (folder / "chunks.bin").write_bytes(b"".join(files.values()))
        path.write_bytes(as_json({"version": 1, "refs": entries(files)}))

    return Source(str(path), {}, mend)


def as_text(body):
    try:
        return body.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(body).decode()


def broken_reference(folder, fault, body):
    if fault.startswith("reference: "):
        kinds = {"null": None, "a number": 7, "broken base64": "base64:@@@not base64@@@"}
        return kinds[fault.removeprefix("reference: ")]
    fault, target = fault.removeprefix("target: "), folder / "target.bin"
    if fault == "outside the folder":
        target = folder.parent / f"outside-{folder.name}.bin"
    if fault == "FIFO":
        os.mkfifo(target, 0o666)
    elif fault == "link loop":
        target.symlink_to(target.name)
    elif fault != "absent":
        target.write_bytes(body)
    if fault == "permission denied":
        target.chmod(0)
    name = f"../{target.name}" if fault == "outside the folder" else target.name
    return [name, 1 << 20 if fault == "beyond the end" else 0, len(body)]


WRITERS = {
    silence.DIRECTORY: write_directory,
    silence.ZIP: write_zip,
    silence.REFERENCES: write_references,
}
