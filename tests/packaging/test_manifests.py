"""What is in deploy/ is valid by the schemas of Kubernetes and of compose, and agrees with itself
and with the command line.  The schemas come with packages: nothing is fetched."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.packaging.images import (
    COMPOSE,
    MANIFESTS,
    compose,
    copied,
    kept,
    manifest,
    manifests,
    steps,
)
from tests.tracked import ROOT
from thence.cli.main import main

KUBERNETES = ["1.28", kubernetes_validate.latest_version()]
WORKERS = ("StatefulSet", "thence-lab-worker")
JOB = ("Job", "thence-lab")
Capture = pytest.CaptureFixture[str]


def named(each: dict[str, Any]) -> str:
    return f"{each['kind']}-{each['metadata']['name']}"


def pod(found: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return spec


def value_of(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("found", manifests(), ids=named)
def test_a_manifest_is_valid(found: dict[str, Any], version: str):
    kubernetes_validate.validate(found, version, strict=True)


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        (WORKERS, ("spec", "replicas"), "three"),
        (WORKERS, ("spec", "serviceName"), 3),
        (WORKERS, ("spec", "servicename"), "thence-lab-workers"),
        (WORKERS, ("spec", "template", "spec", "containers"), None),
        (JOB, ("spec", "backoffLimit"), "3"),
        (JOB, ("spec", "backofLimit"), 3),
        (("Service", "thence-lab-coordinator"), ("spec", "ports"), [{"name": "x"}]),
    ],
)
def test_a_broken_manifest_is_not(kind: tuple[str, str], path: tuple[str, ...], value: Any):
    broken = at = copy.deepcopy(manifest(*kind))
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, KUBERNETES[-1], strict=True)


def test_every_file_has_a_manifest_and_every_kind_that_is_needed_is_there():
    assert all(list(yaml.safe_load_all(path.read_text("utf-8"))) for path in MANIFESTS)
    kinds = {each["kind"] for each in manifests()}
    assert {"StatefulSet", "Service", "Job", "PersistentVolumeClaim", "NetworkPolicy"} == kinds


def test_services_are_headless_and_lead_to_pods_of_the_lab():
    templates = {kind: manifest(*kind)["spec"]["template"] for kind in (WORKERS, JOB)}
    for kind, name in ((WORKERS, "thence-lab-workers"), (JOB, "thence-lab-coordinator")):
        spec = manifest("Service", name)["spec"]
        assert spec["clusterIP"] == "None"
        assert spec["selector"].items() <= templates[kind]["metadata"]["labels"].items()
        (other,) = set(templates) - {kind}
        assert not spec["selector"].items() <= templates[other]["metadata"]["labels"].items()
    workers = manifest(*WORKERS)["spec"]
    assert workers["serviceName"] == "thence-lab-workers"
    assert workers["selector"]["matchLabels"] == templates[WORKERS]["metadata"]["labels"]
    policy = manifest("NetworkPolicy", "thence-lab")["spec"]["podSelector"]["matchLabels"]
    for template in templates.values():
        assert policy.items() <= template["metadata"]["labels"].items()


def test_coordinator_and_workers_of_the_manifests_find_each_other():
    (worker,) = pod(manifest(*WORKERS))["containers"]
    (coordinator,) = pod(manifest(*JOB))["containers"]
    host, _, port = value_of(worker["args"], "--coordinator").partition(":")
    service = manifest("Service", host)["spec"]
    assert [each["port"] for each in service["ports"]] == [int(port)]
    assert [each["containerPort"] for each in coordinator["ports"]] == [int(port)]
    assert value_of(coordinator["args"], "--listen") == f"0.0.0.0:{port}"
    replicas = manifest(*WORKERS)["spec"]["replicas"]
    assert value_of(coordinator["args"], "--workers") == str(replicas)


@pytest.mark.parametrize("kind", [WORKERS, JOB], ids=lambda kind: kind[0])
def test_pods_get_the_secret_by_reference_and_run_as_the_user_of_the_image(kind: tuple[str, str]):
    spec = pod(manifest(*kind))
    (user,) = [step.rest for step in steps() if step.word == "USER"]
    context = spec["securityContext"]
    assert f"{context['runAsUser']}:{context['runAsGroup']}" == user
    assert context["fsGroup"] == context["runAsGroup"], "or the secret cannot be read"
    assert context["runAsNonRoot"] is True
    volumes = {each["name"]: each for each in spec["volumes"]}
    assert volumes["given"]["secret"]["secretName"] == "thence-lab"
    (first,), (container,) = spec["initContainers"], spec["containers"]
    assert first["command"] == ["install", "-m", "0400", "/given/lab-secret", "/secret/lab-secret"]
    assert value_of(container["args"], "--secret-file") == "/secret/lab-secret"
    for each in (first, container):
        assert each["image"] == "thence:latest"
        assert each["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in each["resources"]["limits"]
        assert {mount["name"] for mount in each["volumeMounts"]} <= volumes.keys()


def test_manifests_hold_no_secret():
    assert not [each for each in manifests() if each["kind"] == "Secret"]


# ---- compose, and what all of them say to thence -------------------------------------------------


def judged(path: Path) -> subprocess.CompletedProcess[str]:
    words = ["-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, timeout=60
    )


def test_the_compose_file_is_valid_and_a_broken_one_is_not(tmp_path: Path):
    done = judged(COMPOSE)
    assert done.returncode == 0, done.stdout + done.stderr
    text = COMPOSE.read_text("utf-8")
    for good, bad in (
        ("    restart: on-failure", "    restat: on-failure"),
        ("services:", "service:"),
        ("    internal: true", "    internal: [yes]"),
    ):
        assert good in text
        broken = tmp_path / "compose.yaml"
        broken.write_text(text.replace(good, bad))
        assert judged(broken).returncode == 1, bad


def test_coordinator_and_workers_of_the_compose_file_find_each_other():
    found = compose(LAB_WORKERS="7")
    coordinator, worker = found["services"]["coordinator"], found["services"]["worker"]
    host, _, port = value_of(worker["command"], "--coordinator").partition(":")
    assert host in found["services"]
    assert value_of(coordinator["command"], "--listen") == f"0.0.0.0:{port}"
    assert value_of(coordinator["command"], "--workers") == "7" == str(worker["deploy"]["replicas"])
    for service in (coordinator, worker):
        assert service["networks"] == list(found["networks"])
        assert service["secrets"] == list(found["secrets"])
        secret = value_of(service["command"], "--secret-file")
        assert secret == f"/run/secrets/{service['secrets'][0]}"
    build = coordinator["build"]
    assert (COMPOSE.parent / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()


def told() -> list[list[str]]:
    found = [service["command"] for service in compose()["services"].values()]
    return found + [pod(manifest(*kind))["containers"][0]["args"] for kind in (WORKERS, JOB)]


@pytest.mark.parametrize("words", told(), ids=lambda words: " ".join(words[:2]))
def test_thence_has_the_flags_that_containers_give_it(words: list[str], capsys: Capture):
    command = words[:2] if words[1] == "worker" else words[:1]
    assert main([*command, "--help"]) == 0
    known = capsys.readouterr().out
    flags = [word for word in words if word.startswith("--")]
    assert flags
    assert not [flag for flag in flags if flag not in known]
    files = [word for word in words if word.endswith(".toml")]
    assert all((ROOT / file.lstrip("/")).is_file() for file in files)


def test_the_image_is_made_of_files_that_are_there_and_let_through():
    assert copied()
    assert [name for name in copied() if not (ROOT / name).exists() or not kept(name)] == []
