# SPDX-License-Identifier: Apache-2.0
"""The daemon under test: TC_DAEMON, or the release build. Tests that are coroutines run in a loop of their own;
TC_FULL=1 runs the long ones too. The last line is the sum, as every test program of this tree prints it."""
import asyncio
import inspect
import os
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

import peer  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT_S = 300


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes long; runs with TC_FULL=1 only")
    config.addinivalue_line("markers", "better: the reference daemon cannot do this; skipped on it")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}

    async def limited():
        async with asyncio.timeout(LIMIT_S * (10 if peer.FULL else 1)):
            await pyfuncitem.obj(**arguments)

    asyncio.run(limited())
    return True


def pytest_terminal_summary(terminalreporter):
    stats = terminalreporter.stats
    passed, skipped = len(stats.get("passed", [])), len(stats.get("skipped", []))
    failed = len(stats.get("failed", [])) + len(stats.get("error", []))
    for report in stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        terminalreporter.write_line(f"{report.nodeid} skipped: {reason.removeprefix('Skipped: ')}")
    terminalreporter.config.sum_line = f"{passed} passed, {failed} failed, {skipped} skipped"


def pytest_unconfigure(config):
    if hasattr(config, "sum_line"):
        print("\n" + config.sum_line, flush=True)


@pytest.fixture(scope="session")
def daemon(tmp_path_factory):
    """Absolute path of the program under test."""
    path = os.path.abspath(os.environ.get("TC_DAEMON") or os.path.join(ROOT, "build/release/bin/telechird"))
    if not os.access(path, os.X_OK):
        pytest.exit(f"no daemon at {path}: build it, or set TC_DAEMON", returncode=1)
    return path


@pytest.fixture(scope="session")
def is_reference(daemon, tmp_path_factory):
    """Does the program call itself a13n-envd under any name?"""
    link = tmp_path_factory.mktemp("name") / "telechird"
    link.symlink_to(daemon)
    said = subprocess.run([link, "--version"], env=peer.environment(), capture_output=True, text=True, timeout=30)
    return said.stdout.startswith("a13n-envd")


@pytest.fixture
def place(daemon, is_reference, tmp_path, request):
    if request.node.get_closest_marker("long") and not peer.FULL:
        pytest.skip("takes long; TC_FULL=1 runs it")
    if is_reference and (marked := request.node.get_closest_marker("better")):
        pytest.skip("the reference daemon cannot do this" + "".join(f": {a}" for a in marked.args))
    here = peer.Place(daemon, tmp_path, is_reference)
    yield here
    here.end()
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture
def drop_in(place, daemon):
    """The program under the name of the reference."""
    folder = os.path.join(place.folder, "bin")
    os.mkdir(folder)
    link = os.path.join(folder, "a13n-envd")
    os.symlink(daemon, link)
    return link
