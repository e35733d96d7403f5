"""What is handed to operators and builders: image, services, licences, the list of dependencies."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.cli import main
from bot.settings import Settings, variable_names
from scripts.house import ROOT

ROLES = {"gateway", "worker", "scheduler", "web"}


def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return read


def services() -> dict[str, Any]:
    read: dict[str, Any] = compose()["services"]
    return read


def ours() -> dict[str, Any]:
    return {name: service for name, service in services().items() if "build" in service}


def test_every_role_is_a_service_and_migrations_run_once_before_them() -> None:
    commands = {name: tuple(service["command"]) for name, service in ours().items()}
    assert commands == {"migrate": ("db", "migrate"), **{role: ("run", role) for role in ROLES}}
    assert services()["migrate"]["restart"] == "no"
    for role in ROLES:
        assert services()[role]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}


def commands() -> list[tuple[str, ...]]:
    """Return what services and the image start."""
    image = re.findall(r"(?m)^CMD (\[.*\])$", (ROOT / "Dockerfile").read_text())
    return [tuple(service["command"]) for service in ours().values()] + [tuple(json.loads(each)) for each in image]


def known(command: tuple[str, ...]) -> bool:
    """Return whether the program's command line takes it."""
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    return ended.value.code == 0


def test_commands_of_services_are_commands_of_the_program() -> None:
    assert len(commands()) == 6
    assert [command for command in commands() if not known(command)] == []
    assert not known(("run", "nothing"))


def test_no_service_runs_as_root_or_gains_rights() -> None:
    for name, service in services().items():
        assert service["user"].partition(":")[0] not in ("", "0", "root"), name
        assert "no-new-privileges:true" in service["security_opt"], name
    for name, service in ours().items():
        assert (service["cap_drop"], service["read_only"]) == (["ALL"], True), name


def test_every_lasting_service_has_a_health_check() -> None:
    for name, service in services().items():
        if name != "migrate":
            assert service["healthcheck"]["test"][0] == "CMD" and service["restart"] == "unless-stopped", name


def test_no_password_has_a_default() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    for name, value in re.findall(r"\$\{(\w+)([^}]*)\}", text):
        assert value.startswith(":?"), name
    for service in services().values():
        for name in service.get("environment", {}):
            assert not re.search(r"PASSWORD|TOKEN|KEY|SECRET", name)
    for example in (ROOT / "deploy").glob("*.env.example"):
        assert all(line.startswith("#") or line.endswith("=") for line in example.read_text().splitlines())


def test_files_of_secrets_are_ignored_by_git_and_by_the_image() -> None:
    named = {name for service in services().values() for name in service.get("env_file", [])}
    assert named == {".env", "postgres.env", "qdrant.env"}
    assert named <= set((ROOT / ".gitignore").read_text().split())
    assert (ROOT / ".dockerignore").read_text().splitlines()[1] == "*"


def test_only_loopback_ports_are_published() -> None:
    ports = [port for service in services().values() for port in service.get("ports", [])]
    assert ports and all(port.startswith("127.0.0.1:") for port in ports)


def test_services_set_only_variables_that_settings_know() -> None:
    settings = set(variable_names(Settings))
    assert {name for service in ours().values() for name in service["environment"]} <= settings
    # Each role answers its health check only where the port is chosen, see Settings.http_chosen.
    assert all("VOIDBOT_HTTP_PORT" in service["environment"] for service in ours().values())


def test_volumes_are_named_and_the_vector_server_is_a_choice() -> None:
    used = {volume.partition(":")[0] for service in services().values() for volume in service["volumes"]}
    assert {volume for volume in used if not volume.startswith(".")} == set(compose()["volumes"])
    assert services()["qdrant"]["profiles"] == ["qdrant"]
    assert all("profiles" not in service for name, service in services().items() if name != "qdrant")


def test_the_grace_of_services_is_longer_than_the_drain() -> None:
    drain_s = Settings.model_fields["drain_s"].default
    assert all(int(service["stop_grace_period"].removesuffix("s")) > drain_s + 10 for service in ours().values())


def test_the_image_holds_all_data_installs_by_hash_and_drops_root() -> None:
    text = (ROOT / "Dockerfile").read_text()
    copied = set(re.findall(r"(?m)^COPY (\w+) \1$", text))
    assert copied == {"bot", "core", "migrations", "prompts", "agents", "data"}
    assert "--require-hashes --no-deps -r requirements.lock" in text
    stages = text.split("\nFROM ")
    assert len(stages) == 3 and re.search(r"(?m)^USER 10001:10001$", stages[-1])
    assert "HEALTHCHECK" in stages[-1] and not re.search(r"(?i)\b(ARG|ENV)\b.*(password|token|secret)", text)
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert all(f"!{name}" in ignored for name in copied)


@pytest.mark.parametrize("script", [".ci/run", "deploy/postgres-init.sh", "scripts/lock.sh"])
def test_scripts_can_be_run_and_parsed(script: str) -> None:
    path = ROOT / script
    shell = shutil.which("bash" if "bash" in path.read_text().splitlines()[0] else "sh")
    assert shell is not None and os.access(path, os.X_OK)
    assert subprocess.run([shell, "-n", path], check=False).returncode == 0


def test_continuous_integration_runs_make_test_from_the_root(tmp_path: Path) -> None:
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\necho "$PWD $*"\n')
    make.chmod(0o755)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run([ROOT / ".ci/run"], cwd=tmp_path, env=path, capture_output=True, text=True, check=True)
    assert done.stdout == f"{ROOT} test\n"


# Dependencies and licences


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def listed() -> dict[str, dict[str, tuple[str, str]]]:
    """Return heading -> package -> (why, licence) of the page."""
    page: dict[str, dict[str, tuple[str, str]]] = {}
    heading = ""
    for line in (ROOT / "docs/dependencies.md").read_text().splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
            page[heading] = {}
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0] not in ("package", "---"):
            page[heading][cells[0]] = (cells[1], cells[2])
    return page


def names(requirements: list[str]) -> list[str]:
    return [re.split(r"[\[<>=;!~ ]", requirement, maxsplit=1)[0] for requirement in requirements]


def test_the_page_of_dependencies_and_the_project_name_the_same() -> None:
    groups = project()["dependency-groups"]
    asked = {
        "Run": project()["project"]["dependencies"],
        "Build": groups["build"],
        "Vectors outside Postgres": project()["project"]["optional-dependencies"]["qdrant"],
        "Checks and tests": groups["dev"],
        "Benchmarks": groups["bench"],
        "Building the embedding model": groups["build-model"],
    }
    assert {group: list(rows) for group, rows in listed().items()} == {
        group: names(requirements) for group, requirements in asked.items()
    }


def test_every_dependency_has_one_sentence_and_a_licence() -> None:
    rows = {name: row for group in listed().values() for name, row in group.items()}
    assert [name for name, (why, licence) in rows.items() if not why.endswith(".") or len(licence) < 3] == []


def licence_of(name: str) -> str | None:
    """Return the licence expression in the installed package's metadata; None if it has none."""
    try:
        values = importlib.metadata.metadata(name).get_all("License-Expression")
    except importlib.metadata.PackageNotFoundError:
        return None
    return str(values[0]) if values else None


def test_licences_are_those_that_the_packages_declare() -> None:
    notice = dict(re.findall(r"(?m)^  ([a-z0-9-]+) +(\S.*)$", (ROOT / "NOTICE").read_text()))
    rows = {name: licence for group in listed().values() for name, (_, licence) in group.items()}
    told = [*notice.items(), *rows.items()]
    declared = [(name, licence, licence_of(name)) for name, licence in told]
    assert [row for row in declared if row[2] is not None and row[1] != row[2]] == []


def test_the_notice_names_every_package_that_is_installed() -> None:
    notice = (ROOT / "NOTICE").read_text()
    lines = re.findall(r"(?m)^([a-z0-9-]+)==(.*)$", (ROOT / "requirements.lock").read_text())
    installed = {name for name, rest in lines if "sys_platform == 'emscripten'" not in rest}
    assert {name for name in installed if not re.search(rf"(?m)^  {re.escape(name)} ", notice)} == set()
    assert {"PostgreSQL", "pgvector"} <= set(notice.split())


def test_the_licence_is_the_one_the_project_declares() -> None:
    assert project()["project"]["license"] == "MIT"
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")
    assert all((ROOT / name).is_file() for name in project()["project"]["license-files"])
