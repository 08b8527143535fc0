"""The GitHub Action and the pre-commit hook: by their schemas, and by running what they run."""

import json
import os
import pathlib
import shlex
import subprocess

import jsonschema
import pytest
import yaml

from conftest import FIXTURES, ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


def test_the_action_is_valid_by_its_schema():
    schema = json.loads((pathlib.Path(__file__).parent / "data" / "github-action.json").read_text())
    validator = jsonschema.Draft7Validator(schema)
    assert [error.message for error in validator.iter_errors(ACTION)] == []
    assert not validator.is_valid({**ACTION, "runs": {"using": "composite"}}), "the schema refuses something"


def test_inputs_reach_scripts_as_variables_alone():
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", ""), f"{step['name']}: an input could slip a command in"
        if "run" in step:
            assert step["shell"] == "bash"
    used = json.dumps(ACTION["runs"])
    for name in ACTION["inputs"]:
        assert f"inputs.{name}" in used, name


def test_the_documentation_names_every_input_with_its_default():
    text = (ROOT / "docs" / "ci.md").read_text()
    rows = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    for name, facts in ACTION["inputs"].items():
        default = facts.get("default", "")
        assert name in rows, name
        assert not default or f"`{default}`" in rows[name], name


class Runner:
    """Runs the step `audit` as GitHub's runner does."""

    def __init__(self, zkit, folder):
        self.zkit, self.folder = zkit, folder
        self.script = next(step for step in ACTION["runs"]["steps"] if step.get("id") == "audit")
        self.output, self.summary = folder / "output", folder / "summary"
        self.output.touch()
        self.summary.touch()

    def __call__(self, **inputs):
        values = {name: facts.get("default", "") for name, facts in ACTION["inputs"].items()}
        values |= {"zkit": str(self.zkit.path)} | {name.replace("_", "-"): value for name, value in inputs.items()}
        places = {variable: text.strip("${ }").removeprefix("inputs.") for variable, text in self.script["env"].items()}
        env = self.zkit.environment(
            **{variable: values[name] for variable, name in places.items()},
            RUNNER_TEMP=str(self.folder),
            GITHUB_OUTPUT=str(self.output),
            GITHUB_STEP_SUMMARY=str(self.summary),
        )
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", self.script["run"]],
            env=env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=True,
        )

    def outputs(self):
        return dict(line.split("=", 1) for line in self.output.read_text().splitlines())


@pytest.fixture
def runner(zkit, tmp_path):
    return Runner(zkit, tmp_path)


def test_the_action_audits_annotates_and_keeps_reports(runner):
    stores = [FIXTURES / "bcsd_climate.zarr", FIXTURES / "faulty_zstd_truncated.zarr"]
    done = runner(paths="\n".join(f"  {store} " for store in stores) + "\n")
    assert "::error title=truncated-chunk" in done.stdout
    outputs = runner.outputs()
    assert outputs["exit-code"] == "1"
    reports = pathlib.Path(outputs["reports"])
    names = {"audit.html", "audit.sarif", "audit.junit.xml", "audit.json", "audit.txt"}
    assert {path.name for path in reports.iterdir()} == names
    assert len(json.loads((reports / "audit.json").read_text())["stores"]) == 2
    summary = runner.summary.read_text()
    assert summary.startswith("### zkit audit\n\n    ")
    assert all(line.startswith("    ") for line in summary.splitlines()[2:])


def test_the_action_is_clean_where_nothing_fails(runner):
    runner(paths=str(FIXTURES / "imerg_template.zarr"), fail_on="never", format="text", args="--jobs=1\n")
    assert runner.outputs()["exit-code"] == "0"


def test_inputs_of_the_action_are_no_commands(runner):
    runner(paths="$(touch pwned); `touch pwned`\n--output=pwned", args="")
    assert runner.outputs()["exit-code"] in ("2", "3")
    assert not (runner.folder / "pwned").exists()


def test_the_hook_has_what_pre_commit_needs():
    assert [hook["id"] for hook in HOOKS] == ["zkit-audit"]
    for hook in HOOKS:
        assert {"id", "name", "entry", "language"} <= set(hook)


def test_the_hook_runs_on_a_repository(zkit, copy_of):
    hook = HOOKS[0]
    command = [*shlex.split(hook["entry"]), *hook["args"]]
    folder = copy_of("bcsd_climate.zarr").parent
    path = {"PATH": f"{zkit.path.parent}{os.pathsep}{os.environ['PATH']}"}
    clean = subprocess.run(command, cwd=folder, env=zkit.environment(**path), capture_output=True, text=True)
    assert clean.returncode == 0, clean.stderr
    (folder / "bcsd_climate.zarr" / "tas" / ".zarray").write_text("{")
    broken = subprocess.run(command, cwd=folder, env=zkit.environment(**path), capture_output=True, text=True)
    assert broken.returncode in (1, 3), broken.stdout
    assert "/tas" in broken.stdout
