"""What docker/check needs of Docker, and of podman where no Docker engine runs."""

import fcntl
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

DOCKER = Path(__file__).resolve().parent
ROOT = DOCKER.parent
PATHS = os.pathsep.join([str(ROOT / ".venv/bin"), os.environ["PATH"]])
HELPERS = ":".join(f"/usr/{folder}/podman" for folder in ("local/libexec", "local/lib", "libexec", "lib"))
"""Where podman looks for programs that nobody else calls; without recommended packages it comes with none."""
BASE, DATABASE, IMAGE, PROJECT = "python:3.11-slim", "postgres:17", "mmbsgd", "mmbsgd-check"
HUB = "docker.io/library/"
TOLD = {"index-url", "extra-index-url", "find-links", "cert", "trusted-host"}
"""How this machine's pip finds packages: the build may know it, the image may not."""


class Failed(Exception):
    """Something is not as it should be."""


def demand(fact: object, otherwise: str) -> None:
    if not fact:
        raise Failed(otherwise)


def tool(name: str, paths: str = PATHS) -> str:
    found = shutil.which(name, path=paths)
    demand(found, f"there is no {name}: see docker/check --help")
    return str(found)


def until(seconds: float, otherwise: str, fact: Callable[[], object]) -> None:
    end = time.monotonic() + seconds
    while not fact():
        demand(time.monotonic() < end, f"{otherwise} after {seconds:.0f} s")
        time.sleep(0.5)


@contextmanager
def alone() -> Iterator[Path]:
    """A folder to work in. Containers, networks and ports have fixed names: one check at a time."""
    places = Path(tempfile.gettempdir())
    with open(places / f"{PROJECT}.lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failed("another docker/check is running on this machine: wait for its end") from None
        for remains in places.glob(f"{PROJECT}-*"):  # of one that was killed: its networks would answer for ours
            if (remains / "storage.conf").exists():
                Podman(remains, keep=False).clear()
            shutil.rmtree(remains, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=f"{PROJECT}-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)


class Engine:
    """Docker, or what podman has in common with it."""

    name = "Docker"
    typing = "as they are"

    def __init__(self, work: Path) -> None:
        self.command, self.compose_command = ["docker"], ["docker", "compose"]
        self.work = work
        self.environment = dict(os.environ)
        self.files = [DOCKER / "compose.yaml"]
        self.settings = work / "settings.env"

    def run(self, *words: str, ok: bool = True, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
        nothing = subprocess.DEVNULL
        done = subprocess.run(words, env=self.environment, text=True, capture_output=True, stdin=nothing, cwd=cwd)
        if ok and done.returncode:
            raise Failed(f"{' '.join(words)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
        return done

    def __call__(self, *words: str, ok: bool = True) -> str:
        done = self.run(*self.command, *words, ok=ok)
        return done.stdout + ("" if ok else done.stderr)

    def compose_words(self, *words: str) -> list[str]:
        files = [word for file in self.files for word in ("-f", str(file))]
        # Never docker/.env, which may be somebody's own.
        return [*self.compose_command, "-p", PROJECT, "--env-file", str(self.settings), *files, *words]

    def compose(self, *words: str, ok: bool = True) -> str:
        return self.run(*self.compose_words(*words), ok=ok).stdout

    def typed(self, *words: str) -> list[str]:
        """What docs/cluster.md tells to type after `docker compose -f docker/compose.yaml`, for this engine."""
        return self.compose_words(*words)

    def build(self) -> str:
        self("build", "--file", str(DOCKER / "Dockerfile"), "--tag", IMAGE, str(ROOT))
        return "on the published base images"

    def up(self) -> None:
        self.compose("up", "-d", "--build", "--scale", "worker=2", "--wait")

    def containers(self, service: str | None = None) -> list[str]:
        label = f"label=com.docker.compose.project={PROJECT}"
        more = [] if service is None else ["--filter", f"label=com.docker.compose.service={service}"]
        return sorted(self("ps", "--all", "--filter", label, *more, "--format", "{{.Names}}").split())

    def healthy(self, container: str) -> bool:
        return self("inspect", "--format", "{{.State.Health.Status}}", container).strip() == "healthy"

    def down(self) -> None:
        self.compose("--profile", "driver", "down", "--volumes", "--timeout", "5")

    def clear(self) -> None:
        """Docker keeps its images."""


class Podman(Engine):
    """Has a storage of its own, so that a stand-in never replaces an image of this machine."""

    name = "podman"
    typing = "as podman-compose and podman want them"

    def __init__(self, work: Path, keep: bool) -> None:
        """keep: images and layers, for the next time."""
        super().__init__(work)
        for name in ("podman", "buildah", "catatonit", "iptables", "runc"):
            tool(name)
        for name in ("netavark", "aardvark-dns"):
            tool(name, HELPERS)
        demand(os.geteuid() == 0, "without a Docker engine this needs root: sudo docker/check")
        self.command, self.compose_command = ["podman"], [tool("podman-compose"), "--in-pod", "false"]
        files = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 65536)
        processes = min(resource.getrlimit(resource.RLIMIT_NPROC)[1], 16384)
        systemd = Path("/run/systemd/system").exists()
        self._write(
            "storage.conf",
            f'[storage]\ndriver = "overlay"\ngraphroot = "{work}/images"\nrunroot = "{work}/running"\n',
        )
        self._write(
            "containers.conf",
            # A sandbox may have lower limits than podman would set.
            f'[containers]\ndefault_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]\n'
            f'[engine]\nruntime = "runc"\ncgroup_manager = "{"systemd" if systemd else "cgroupfs"}"\n'
            f'events_logger = "file"\nlock_type = "file"\ntmp_dir = "{work}/podman"\n'
            f'[network]\nnetwork_backend = "netavark"\nnetwork_config_dir = "{work}/networks"\n',
        )
        self.environment |= {
            "CONTAINERS_STORAGE_CONF": str(work / "storage.conf"),
            "CONTAINERS_CONF": str(work / "containers.conf"),
        }
        limits = {"ulimits": {"nofile": files, "nproc": processes}}
        # JSON is YAML.
        self._write("limits.yaml", json.dumps({"services": dict.fromkeys(("head", "worker", "driver"), limits)}))
        self.files.append(work / "limits.yaml")
        self._layers = keep

    def _write(self, name: str, text: str) -> Path:
        path = self.work / name
        path.write_text(text)
        return path

    def build(self) -> str:
        again = ", on layers of an earlier run" if self._layers and self("images", "--quiet", IMAGE) else ""
        stand_ins = [name for name in (BASE, DATABASE) if not self._have(name)]
        if BASE in stand_ins:
            self._debian()
        if DATABASE in stand_ins:
            self._postgresql()
        self._buildah(DOCKER / "Dockerfile", IMAGE, ROOT)
        made = self("images", "--filter", "label=stand-in", "--format", "{{.Repository}}:{{.Tag}}").split()
        names = " and ".join(sorted(name.removeprefix(HUB) for name in made if name.startswith(HUB)))
        return (f"stand-ins from Debian for {names}: no registry" if names else "on the published base images") + again

    def _have(self, name: str) -> bool:
        if not self.run("podman", "image", "exists", HUB + name, ok=False).returncode:
            return True
        return not self.run("podman", "pull", "--quiet", HUB + name, ok=False).returncode

    def _debian(self) -> None:
        """Debian 12 has Python 3.11."""
        sites = self.run("apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", ok=False)
        mirror = sites.stdout.split()[:1]  # this machine's own, or debootstrap's
        more = "--include=ca-certificates,python3,python3-venv"
        archive = self.work / "debian.tar"
        with tempfile.TemporaryDirectory(prefix="mmbsgd-debian-") as folder:  # debootstrap wants a path without blanks
            root = Path(folder) / "root"
            self.run(tool("debootstrap"), "--variant=minbase", more, "bookworm", str(root), *mirror)
            (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
            for deb in (root / "var/cache/apt/archives").glob("*.deb"):
                deb.unlink()
            self.run("tar", "--create", "--directory", str(root), "--file", str(archive), ".")
        self("import", "--change", "LABEL stand-in=debootstrap", str(archive), HUB + BASE)
        archive.unlink()

    def _postgresql(self) -> None:
        """Debian's, behind the contract of Docker's image as far as compose.yaml uses it."""
        folder = self.work / "postgres"
        folder.mkdir(exist_ok=True)
        (folder / "entrypoint").write_text(POSTGRES)
        (folder / "Dockerfile").write_text(
            f"FROM {HUB}{BASE}\nLABEL stand-in=debian\n"
            "RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends"
            " postgresql && rm -rf /var/lib/apt/lists/* && ln -s /usr/lib/postgresql/*/bin/* /usr/local/bin/"
            " && mkdir -p /var/lib/postgresql/data\n"
            'COPY --chmod=755 entrypoint /entrypoint\nENTRYPOINT ["/entrypoint"]\n'
        )
        self._buildah(folder / "Dockerfile", HUB + DATABASE, folder)

    def _buildah(self, dockerfile: Path, image: str, context: Path) -> None:
        keep = ["--layers"] if self._layers else []
        mounts = [word for mount in self._of_pip() for word in ("--volume", mount)]
        how = ["--isolation", "chroot", "--network", "host", "--pull-never", "--format", "docker"]
        self.run("buildah", "bud", *keep, *how, *mounts, "--file", str(dockerfile), "--tag", image, str(context))

    def _of_pip(self) -> list[str]:
        """Mounts that let the build find packages as this machine does, and leave no trace in the image."""
        listed = self.run(sys.executable, "-m", "pip", "config", "list", ok=False).stdout
        told = {key: value for key, value in re.findall(r"^\S+\.([\w-]+)='(.*)'$", listed, re.M) if key in TOLD}
        conf = self._write("pip.conf", "\n".join(["[global]", *(f"{key} = {value}" for key, value in told.items())]))
        paths = [Path(word.removeprefix("file://")) for value in told.values() for word in value.split()]
        paths = [path.parent if path.name == "simple" else path for path in paths if path.is_absolute()]
        return [f"{conf}:/etc/pip.conf:ro", *(f"{path}:{path}:ro" for path in set(paths) if path.exists())]

    def up(self) -> None:
        # Older podmans, and those without systemd, know nothing of health: the order of depends_on, by hand.
        for services in (["postgres"], ["head", "mlflow"], ["worker"]):
            self.compose("up", "--detach", "--no-recreate", *services)
            for service in services:
                for container in self.containers(service):
                    until(120, f"{container} is not healthy", partial(self.healthy, container))

    def typed(self, *words: str) -> list[str]:
        # Where podman-compose (1.6) is not Docker's: it has no `cp`; `run` neither finds a service whose profile is not
        # named nor sees that it writes to no terminal.
        what, *rest = words
        if what == "cp":
            service, _, path = rest[0].partition(":")
            (container,) = self.containers(service)
            return ["podman", "cp", f"{container}:{path}", *rest[1:]]
        return self.compose_words("--profile", "driver", "run", "-T", *rest) if what == "run" else super().typed(*words)

    def healthy(self, container: str) -> bool:
        return not self.run("podman", "healthcheck", "run", container, ok=False).returncode

    def clear(self) -> None:
        """Leaves nothing but images, if they are to be kept."""
        self.run("buildah", "rm", "--all", ok=False)  # what a build that failed was working on
        self("rm", "--force", "--depend", "--all", "--time", "0", ok=False)
        self("volume", "rm", "--all", "--force", ok=False)
        self("network", "prune", "--force", ok=False)
        if not self._layers:
            self("rmi", "--force", "--all", ok=False)
        mounts = [line.split()[1].replace("\\040", " ") for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in reversed([mount for mount in mounts if mount.startswith(f"{self.work.resolve()}/")]):
            self.run("umount", mount, ok=False)


POSTGRES = """#!/bin/bash
set -euo pipefail
data=/var/lib/postgresql/data
if [ "$(id -u)" = 0 ]; then
    POSTGRES_PASSWORD=$(cat "$POSTGRES_PASSWORD_FILE")
    export POSTGRES_PASSWORD
    chown postgres "$data"
    exec setpriv --reuid=postgres --regid=postgres --init-groups "$0"
fi
if [ ! -s "$data/PG_VERSION" ]; then
    initdb --pgdata="$data" --username="$POSTGRES_USER" --encoding=UTF8 --locale=C.UTF-8 \\
        --auth-local=trust --auth-host=scram-sha-256 --pwfile=<(echo "$POSTGRES_PASSWORD")
    echo "host all all all scram-sha-256" >>"$data/pg_hba.conf"
    pg_ctl --pgdata="$data" --options="-c listen_addresses=''" --wait start
    createdb --username="$POSTGRES_USER" "$POSTGRES_DB"
    for file in /docker-entrypoint-initdb.d/*.sql; do
        psql --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" --file="$file"
    done
    pg_ctl --pgdata="$data" --wait stop
fi
unset POSTGRES_PASSWORD
exec postgres -D "$data" -c listen_addresses='*'
"""
