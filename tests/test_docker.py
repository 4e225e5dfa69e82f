"""What the image, the compose file and the manifests promise, as far as it can be read off. docker/check runs them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import dotenv
import kubernetes_validate
import pytest
import yaml

from workflows.cluster import LOST_SOON

ROOT = Path(__file__).resolve().parents[1]
DOCKER = ROOT / "docker"
KUBERNETES = "1.30"
# The fields of ray.io/v1 that the manifests use, as KubeRay's API reference (v1.6.2) has them.
AUTH = {"mode": str, "secretName": str}
HEAD = {"rayStartParams": dict, "template": dict}
WORKER = HEAD | {"groupName": str, "replicas": int, "minReplicas": int, "maxReplicas": int}
CLUSTER = {"rayVersion": str, "authOptions": AUTH, "headGroupSpec": HEAD, "workerGroupSpecs": [WORKER]}
JOB = {"clusterSelector": dict, "entrypoint": str}


def documents(name):
    return list(yaml.safe_load_all((DOCKER / "kuberay" / name).read_text()))


@pytest.fixture
def compose():
    return yaml.safe_load((DOCKER / "compose.yaml").read_text())


def fits(value, schema):
    """Whether all fields are known, and are what they shall be."""
    if isinstance(schema, dict):
        return isinstance(value, dict) and all(name in schema and fits(value[name], schema[name]) for name in value)
    if isinstance(schema, list):
        return isinstance(value, list) and all(fits(item, schema[0]) for item in value)
    return isinstance(value, schema)


def test_the_manifests_have_the_fields_of_ray_io():
    (cluster,), (job,) = documents("cluster.yaml"), documents("job.yaml")
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert fits(cluster["spec"], CLUSTER)
    assert fits(job["spec"], JOB)
    assert job["spec"]["clusterSelector"] == {"ray.io/cluster": cluster["metadata"]["name"]}
    for group in (cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]):
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())


def test_the_rest_of_the_manifests_fits_kubernetes():
    (cluster,) = documents("cluster.yaml")
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    empty = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}}
    pods = [empty | {"template": group["template"]} for group in groups]
    for document in (*pods, *documents("volume.yaml"), *documents("secrets.example.yaml")):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(pods[0] | {"template": {"spec": {"contaners": []}}}, KUBERNETES, strict=True)


def test_the_manifests_name_the_tested_version_of_ray():
    (cluster,) = documents("cluster.yaml")
    assert f"ray=={cluster['spec']['rayVersion']}" in (ROOT / "constraints.txt").read_text().splitlines()


def test_a_cut_cable_is_noticed_soon_in_the_image():
    dockerfile = (DOCKER / "Dockerfile").read_text()
    assert dict(re.findall(r"(RAY_(?:health|grpc)\w+)=(\d+)", dockerfile)) == LOST_SOON


def test_what_is_published_is_published_here_alone(compose):
    published = {name: service["ports"] for name, service in compose["services"].items() if "ports" in service}
    assert set(published) == {"head", "mlflow"}
    for ports in published.values():
        assert all(port.startswith("127.0.0.1:") for port in ports)


def test_secrets_are_files_and_have_no_defaults(compose):
    assert set(compose["secrets"]) == {"ray_token", "pgpass", "postgres_password"}
    for secret in compose["secrets"].values():
        assert secret["file"].startswith("${MMBSGD_SECRETS:?")
    settings = [service.get("environment", {}) for service in compose["services"].values()]
    for name, value in ((name, value) for each in settings for name, value in each.items()):
        assert "PASSWORD" not in name or name.endswith("_FILE")
        assert not re.search(r"://[^/]*:[^/]*@", str(value))


def test_secrets_are_random_and_for_their_owner_alone(tmp_path):
    made = []
    for name in ("one", "two"):
        folder = tmp_path / name / "secrets"
        folder.parent.mkdir()
        words = [DOCKER / "secrets", folder, tmp_path / "settings"]
        subprocess.run(words, check=True, capture_output=True)
        before = {file.name: file.read_text() for file in folder.iterdir()}
        assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
        assert before["postgres_password"].strip() in before["pgpass"]
        subprocess.run(words, check=True, capture_output=True)
        assert {file.name: file.read_text() for file in folder.iterdir()} == before
        made.append(before)
    assert made[0]["ray_token"] != made[1]["ray_token"]
    assert made[0]["postgres_password"] != made[1]["postgres_password"]
    assert all(len(each["ray_token"]) >= 32 for each in made)


def test_secrets_leave_other_settings_alone(tmp_path):
    ours = tmp_path / "a copy"
    ours.mkdir()
    script = shutil.copy(DOCKER / "secrets", ours)
    (ours / ".env").write_text("# more\nMMBSGD_WORKERS=2\nMMBSGD_UID=7\nMMBSGD_SECRETS=old\nMMBSGD_IMAGE=a b")
    for words in ([], ["other"]):
        for _ in range(2):
            subprocess.run([script, *words], check=True, capture_output=True, cwd=tmp_path)
        text = (ours / ".env").read_text()
        assert text.startswith("# more\nMMBSGD_WORKERS=2\nMMBSGD_IMAGE=a b\n")
        settings = dotenv.dotenv_values(ours / ".env")
        assert settings.keys() == {"MMBSGD_WORKERS", "MMBSGD_IMAGE", "MMBSGD_SECRETS", "MMBSGD_UID"}
        assert settings["MMBSGD_SECRETS"] == str(tmp_path / "other" if words else ours / ".secrets")
        assert len(text.splitlines()) == 5
    before = text
    subprocess.run([script, "third", "named"], check=True, capture_output=True, cwd=tmp_path)
    assert (ours / ".env").read_text() == before
    assert dotenv.dotenv_values(tmp_path / "named")["MMBSGD_SECRETS"] == str(tmp_path / "third")
    assert {path.name for path in tmp_path.iterdir()} == {"a copy", "other", "third", "named"}


def test_no_service_gains_rights(compose):
    for service in compose["services"].values():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
    assert {name for name, service in compose["services"].items() if "cap_add" in service} == {"postgres"}


def test_workers_are_not_in_the_network_of_the_database(compose):
    networks = {name: set(service["networks"]) for name, service in compose["services"].items()}
    assert networks["worker"] == {"cluster"}
    assert networks["mlflow"] == networks["postgres"] == {"results"}
    assert networks["head"] == networks["driver"] == {"cluster", "results"}


def test_the_secrets_of_the_manifests_have_the_names_that_are_looked_for():
    (cluster,) = documents("cluster.yaml")
    head = cluster["spec"]["headGroupSpec"]["template"]["spec"]
    mounted = {volume["secret"]["secretName"] for volume in head["volumes"] if "secret" in volume}
    token = cluster["spec"]["authOptions"]["secretName"]
    assert token == cluster["metadata"]["name"]  # where KubeRay looks that does not know `secretName`
    assert mounted | {token} == {secret["metadata"]["name"] for secret in documents("secrets.example.yaml")}


def test_the_image_has_no_known_flaws():
    hadolint = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([hadolint, DOCKER / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_commands_in_pods_get_the_databases_password():
    """`kubectl exec` goes past the image's entrypoint, which makes the password file one that libpq takes."""
    page = (DOCKER.parent / "docs" / "cluster.md").read_text()
    commands = re.findall(r"^kubectl exec .*$", page, re.MULTILINE)
    assert commands
    assert all(" -- entrypoint mmbsgd " in command for command in commands)
