#!/usr/bin/env python3
"""Tests of scripts/gpu.sh with programs that only pretend, on a machine that needs no GPU."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu.sh")
TOOLS = (
    "awk bash cat cp date dirname env git grep head ldd mkdir mktemp mv nproc realpath rm sed sleep sort "
    "tail timeout touch tr uname wc"
).split()

NVIDIA_SMI = "echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)'"
BDLM = """
for id in $CASES one; do echo "{\\"id\\":\\"$id\\",\\"verdict\\":\\"PASS\\"}"; done
echo '1 cases: 1 PASS 0 FAIL' >&2
"""
TESTS = "[[ $BDLM_CUDA_PLUGIN == */bdlm_cuda.so ]] || exit 3; echo '*** No errors detected' >&2"
BENCH = """
for argument; do [[ $argument == --benchmark_out=* ]] && out=${argument#*=}; done
cat >"$out" <<END
{"context": {"about": "NVIDIA H200, CUDA", "contract": "{}"}, "benchmarks": [
 {"name": "causal-L16384-h32k8-d128/forward", "label": "PASS", "tflops": 500, "median_ms": 1},
 {"name": "causal-L16384-h32k8-d128/backward", "label": "PASS", "tflops": 400, "median_ms": 1}]}
END
"""
SANITIZER = """
[[ $1 == --tool ]] || exit 3
if [[ $2 == memcheck ]]; then
  echo '========= ERROR SUMMARY: 0 errors'
else
  echo '========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)'
fi
"""
PYTHON = f"""
if [[ $1 == -c ]]; then exit 0; fi
if [[ $1 == *attention_peers.py ]]; then
  for argument; do out=$argument; done
  cat >"$out" <<END
{{"device": "NVIDIA H200", "versions": {{}}, "rows": [{{"name": "causal-L16384-h32k8-d128",
  "peer": "cudnn", "tflops_forward": 250, "tflops_backward": 200}}]}}
END
  exit 0
fi
exec {sys.executable} "$@"
"""


class Machine:
    """A folder of programs that is all of PATH, a build, and a place for results."""

    def __init__(self, folder):
        self.bin = os.path.join(folder, "bin")
        self.build = os.path.join(folder, "build")
        self.out = os.path.join(folder, "out")
        os.makedirs(self.bin)
        for tool in TOOLS:
            path = shutil.which(tool)
            if path:
                os.symlink(path, os.path.join(self.bin, tool))
        self.program("bin/nvidia-smi", NVIDIA_SMI)
        self.program("bin/compute-sanitizer", SANITIZER)
        self.program("bin/python", PYTHON)
        self.program("build/bdlm", BDLM)
        self.program("build/bench_attention", BENCH)
        self.program("build/tests/cuda_device_tests", TESTS)
        for name in ("bdlm_cuda.so", "bdlm_cuda_f64.so"):
            self.program("build/" + name, "")

    def program(self, path, text):
        path = os.path.join(os.path.dirname(self.bin), path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/usr/bin/env bash\n" + text)
        os.chmod(path, stat.S_IRWXU)

    def remove(self, path):
        os.remove(os.path.join(os.path.dirname(self.bin), path))

    def environment(self, **more):
        return {
            "PATH": self.bin,
            "PYTHON": os.path.join(self.bin, "python"),
            "CUDA_HOME": "/nowhere",
            "HOME": os.path.dirname(self.bin),
            **more,
        }

    def run(self, *arguments, **environment):
        got = subprocess.run(
            ["bash", SCRIPT, *arguments],
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Result(got)

    def run_stages(self, stages, *options, **environment):
        return self.run("--out", self.out, "--build", self.build, "--stages", stages, *options,
                        **environment)

    def files(self):
        return sorted(os.listdir(self.out))

    def read(self, name):
        with open(os.path.join(self.out, name), encoding="utf-8") as file:
            return file.read()


class Result:
    def __init__(self, got):
        self.status, self.out, self.error = got.returncode, got.stdout, got.stderr
        self.stages = dict(re.findall(r"^stage (\w+): (.*), \d+ s$", got.stdout, re.MULTILINE))
        self.all = f"{got.returncode}\n{got.stdout}\n{got.stderr}"


class Gpu(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.machine = Machine(self.folder.name)

    def test_wrong_arguments_are_named(self):
        out, build = ("--out", self.machine.out), ("--build", self.machine.build)
        empty = os.path.join(self.folder.name, "empty")
        os.mkdir(empty)
        for arguments, words in (
            ((), ("--out",)),
            (("--out",), ("--out",)),
            ((*out, "--fast"), ("--fast", "--quick")),
            ((*out, "--stages", "verify,speed"), ("speed", "sanitize")),
            ((*out, "--stages", ""), ("--stages",)),
            ((*out, "--build", "/nowhere"), ("/nowhere",)),
            ((*out, "--build", empty), ("empty", "bdlm")),
            (("--out", os.path.join(self.machine.build, "bdlm"), *build), ("bdlm",)),
        ):
            with self.subTest(arguments=arguments):
                got = self.machine.run(*arguments)
                self.assertEqual(got.status, 2, got.all)
                for word in words:
                    self.assertIn(word, got.error)
                self.assertEqual(got.stages, {})
        self.assertEqual(self.machine.run_stages("tests", BDLM_STAGE_SECONDS="x").status, 2)

    def test_everything_runs_and_leaves_at_most_eight_files(self):
        got = self.machine.run("--out", self.machine.out, "--build", self.machine.build)
        self.assertEqual(got.status, 0, got.all)
        ok = dict.fromkeys("verify tests sanitize bench peers join long".split(), "ok")
        self.assertEqual({k: v for k, v in got.stages.items() if k != "build"}, ok)
        self.assertIn("as it is", got.stages["build"])
        self.assertLessEqual(len(self.machine.files()), 8)
        self.assertIn('"id":"one"', self.machine.read("verify.jsonl"))
        rows = json.loads(self.machine.read("attention_nvidia_h200.json"))["rows"]
        self.assertEqual(rows[0]["ratio_forward"], 2.0)
        self.assertIn("1 cases: 1 PASS 0 FAIL", got.out)
        self.assertEqual(len(re.findall(r"memcheck .*: 0 errors", got.out)), 5)
        self.assertEqual(len(re.findall(r"racecheck .*: 0 errors", got.out)), 5)

    def test_quick_verifies_quickly_and_leaves_out_what_is_long(self):
        self.machine.program("build/bdlm", 'echo "$*" >&2')
        got = self.machine.run("--out", self.machine.out, "--build", self.machine.build, "--quick")
        self.assertNotIn("long", got.stages)
        self.assertIn("--level quick", self.machine.read("log.txt"))
        self.machine.run_stages("verify")
        self.assertIn("--level gate", self.machine.read("log.txt"))

    def test_stages_are_chosen(self):
        got = self.machine.run_stages("tests,verify")
        self.assertEqual(list(got.stages), ["build", "verify", "tests"])
        self.assertEqual(self.machine.files(), ["log.txt", "verify.jsonl"])

    def test_a_stage_that_fails_does_not_stop_the_others(self):
        self.machine.program("build/bdlm", BDLM + "exit 1")
        got = self.machine.run_stages("verify,tests")
        self.assertEqual(got.status, 1)
        self.assertEqual(got.stages["verify"], "FAILED (status 1)")
        self.assertEqual(got.stages["tests"], "ok")

    def test_a_stage_ends_at_its_limit_and_keeps_its_lines(self):
        self.machine.program("build/bdlm", 'echo first; echo second; sleep 60; echo third')
        got = self.machine.run_stages("verify,tests", BDLM_STAGE_SECONDS="2")
        self.assertEqual(got.status, 1)
        self.assertEqual(got.stages["verify"], "FAILED (over 2 s)")
        self.assertEqual(got.stages["tests"], "ok")
        self.assertEqual(self.machine.read("verify.jsonl"), "first\nsecond\n")

    def test_a_signal_ends_it_at_once_and_keeps_the_lines(self):
        started = os.path.join(self.folder.name, "started")
        self.machine.program(
            "build/bdlm", f"echo first; echo $$ >{started}.tmp; mv {started}.tmp {started}; sleep 60"
        )
        with subprocess.Popen(
            ["bash", SCRIPT, "--out", self.machine.out, "--build", self.machine.build],
            env=self.machine.environment(),
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            while not os.path.exists(started):
                time.sleep(0.05)
            process.terminate()
            out, _ = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130)
        self.assertIn("interrupted", out)
        self.assertEqual(self.machine.read("verify.jsonl"), "first\n")
        with open(started, encoding="utf-8") as file:
            worker = int(file.read())
        for _ in range(100):
            if not os.path.exists(f"/proc/{worker}"):
                break
            time.sleep(0.05)
        self.assertFalse(os.path.exists(f"/proc/{worker}"))

    def test_without_a_gpu_all_is_skipped(self):
        self.machine.program("bin/nvidia-smi", "echo 'No devices were found'; exit 6")
        for arguments in (("--build", self.machine.build), ()):
            got = self.machine.run("--out", self.machine.out, *arguments)
            self.assertEqual(got.status, 77, got.all)
            self.assertTrue(got.stages)
            self.assertTrue(all(s.startswith("skipped (") for s in got.stages.values()), got.all)
            self.assertIn("No devices were found", got.stages["verify"])
        self.machine.remove("bin/nvidia-smi")
        got = self.machine.run_stages("verify")
        self.assertEqual(got.status, 77)
        self.assertIn("nvidia-smi is not found", got.stages["verify"])

    def test_without_nvcc_nothing_is_built(self):
        got = self.machine.run("--out", self.machine.out, "--stages", "verify,peers")
        self.assertEqual(got.status, 0, got.all)
        self.assertIn("nvcc is not found", got.stages["build"])
        self.assertIn("--build", got.stages["build"])
        self.assertEqual(got.stages["verify"], "skipped (nothing was built)")
        self.assertEqual(got.stages["peers"], "ok")

    def test_a_build_that_fails_is_not_judged(self):
        self.machine.program("bin/nvcc", "")
        self.machine.program("bin/cmake", "echo 'no compiler'; exit 1")
        got = self.machine.run("--out", self.machine.out, "--stages", "verify")
        self.assertEqual(got.status, 1)
        self.assertEqual(got.stages["build"], "FAILED (status 1)")
        self.assertEqual(got.stages["verify"], "skipped (nothing was built)")
        self.assertIn("no compiler", self.machine.read("log.txt"))

    def test_a_build_can_be_made_where_there_is_no_gpu(self):
        self.machine.remove("bin/nvidia-smi")
        self.machine.program("bin/nvcc", "")
        self.machine.program("bin/cmake", 'echo "cmake $*"')
        got = self.machine.run("--out", self.machine.out, "--stages", "build")
        self.assertEqual(got.status, 0, got.all)
        self.assertEqual(got.stages, {"build": "ok"})
        self.assertIn("bdlm_cuda_f64", self.machine.read("log.txt"))

    def test_what_the_build_lacks_is_skipped(self):
        self.machine.remove("build/bench_attention")
        self.machine.remove("build/tests/cuda_device_tests")
        got = self.machine.run_stages("tests,bench,long")
        self.assertEqual(got.status, 77, got.all)
        self.assertIn("no " + self.machine.build + "/bench_attention", got.stages["bench"])
        self.assertIn("cuda_device_tests", got.stages["tests"])

    def test_libraries_of_the_build_are_for_its_programs_alone(self):
        os.mkdir(os.path.join(self.machine.build, "lib"))
        says = "echo \"$0 $LD_LIBRARY_PATH\" >&2\n"
        self.machine.program("build/bdlm", says)
        self.machine.program("bin/python", says + PYTHON)
        self.assertEqual(self.machine.run_stages("verify,peers").status, 0)
        lines = self.machine.read("log.txt").splitlines()
        self.assertIn(f"{self.machine.build}/bdlm {self.machine.build}/lib", lines)
        self.assertIn(f"{self.machine.bin}/python ", lines)

    def test_tests_that_find_no_device_are_skipped(self):
        self.machine.program("build/tests/cuda_device_tests", "exit 77")
        self.assertIn("skipped", self.machine.run_stages("tests").stages["tests"])

    def test_findings_of_the_sanitizer_fail(self):
        self.machine.program(
            "bin/compute-sanitizer",
            "if [[ $2 == racecheck ]]; then\n"
            "  echo '========= RACECHECK SUMMARY: 3 hazards displayed (2 errors, 1 warning)'\n"
            "else echo '========= ERROR SUMMARY: 0 errors'; fi",
        )
        got = self.machine.run_stages("sanitize")
        self.assertEqual(got.status, 1)
        self.assertIn("5 of 10", got.stages["sanitize"])
        self.assertIn("racecheck", got.out)
        self.assertIn("2 errors, 1 warnings", got.out)
        self.assertIn("hazards displayed", self.machine.read("sanitize.txt"))
        # A case that the judge fails, and output that says nothing was checked.
        self.machine.program("bin/compute-sanitizer", SANITIZER + "exit 1")
        self.assertIn("10 of 10", self.machine.run_stages("sanitize").stages["sanitize"])
        self.machine.program("bin/compute-sanitizer", "echo hello")
        got = self.machine.run_stages("sanitize")
        self.assertIn("10 of 10", got.stages["sanitize"])
        self.assertIn("no summary", got.out)

    def test_a_sanitizer_that_cannot_run_is_skipped(self):
        self.machine.program("bin/compute-sanitizer", "echo '========= Device not supported'; exit 1")
        got = self.machine.run_stages("sanitize")
        self.assertEqual(got.status, 77)
        self.assertEqual(got.stages["sanitize"], "skipped (compute-sanitizer: Device not supported)")
        self.machine.remove("bin/compute-sanitizer")
        got = self.machine.run_stages("sanitize")
        self.assertEqual(got.stages["sanitize"], "skipped (compute-sanitizer is not found)")

    @unittest.skipUnless("BDLM_PROGRAM" in os.environ, "BDLM_PROGRAM does not name bdlm")
    def test_the_cases_of_the_sanitizer_exist(self):
        dry = self.machine.run("--out", self.machine.out, "--dry-run", "--stages", "sanitize")
        ids = set(re.findall(r"--case (\S+)", dry.out))
        self.assertEqual(len(ids), 5)
        for case in ids:
            words = f"verify --backend cpu --level gate --tier T4,T6 --list --case {case}".split()
            listed = subprocess.run(
                [os.environ["BDLM_PROGRAM"], *words], capture_output=True, text=True, check=False
            )
            self.assertEqual([l.split()[1] for l in listed.stdout.splitlines()], [case])

    def test_a_row_that_failed_fails_the_benchmark(self):
        self.machine.program(
            "build/bench_attention",
            BENCH.replace('"label": "PASS", "tflops": 400', '"error_occurred": true, "tflops": 400'),
        )
        got = self.machine.run_stages("bench")
        self.assertEqual(got.status, 1)
        self.assertEqual(got.stages["bench"], "FAILED (1 rows with the verdict FAIL)")
        self.assertEqual(got.stages["join"], "ok")

    def test_without_torch_there_are_no_peers(self):
        self.machine.program("bin/python", PYTHON.replace("then exit 0", "then exit 1"))
        got = self.machine.run_stages("bench,peers")
        self.assertEqual(got.status, 0, got.all)
        self.assertEqual(got.stages["peers"], "skipped (torch is not found)")
        self.assertEqual(got.stages["join"], "ok")
        rows = json.loads(self.machine.read("attention_nvidia_h200.json"))["rows"]
        self.assertIsNone(rows[0]["peer"])

    def test_a_dry_run_prints_the_commands_and_does_nothing(self):
        self.machine.remove("bin/nvidia-smi")
        got = self.machine.run("--out", self.machine.out, "--dry-run")
        self.assertEqual(got.status, 0, got.all)
        self.assertFalse(os.path.exists(self.machine.out))
        for words in (
            ("bdlm verify", "--level gate", "--jsonl -", "verify.jsonl"),
            ("compute-sanitizer --tool racecheck", "--target-processes all", "d128"),
            ("bench_attention", "attention_shapes.json", "bench.json"),
            ("attention_peers.py",),
            ("join.py",),
            ("bench_attention", "attention_long_shapes.json", "long.json"),
        ):
            found = [l for l in got.out.splitlines() if all(w in l for w in words)]
            self.assertTrue(found, (words, got.out))
            self.assertTrue(found[0].startswith("$ "))


if __name__ == "__main__":
    unittest.main()
