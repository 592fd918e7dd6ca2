"""The viewer in a real browser, without a display: Chromium, which draws by software.

Nothing here reaches beyond this machine, and the tests make sure of it.
"""

import contextlib
import io
import os
import shutil
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import sync_playwright

import jaxcfa
from jaxcfa import viz
from jaxcfa.viz import Viewer
from jaxcfa.viz._poses import initial
from jaxcfa.viz._sliders import value_of
from robots import urdf_path

pytestmark = pytest.mark.slow

ARGUMENTS = [
    "--no-sandbox",
    "--ignore-gpu-blocklist",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
# Where nothing lies upon the scene.
SCENE = {"x": 0, "y": 160, "width": 560, "height": 340}
FAILED = Path("output") / "failed_browser_test.png"
PATIENCE = 90.0  # seconds; several processes may share the machine


class Case(NamedTuple):
    file: Path
    floating_base: bool = False
    robots: int = 1


CASES = {
    "meshes": lambda: Case(urdf_path("go2.urdf"), floating_base=True),
    "no meshes": lambda: Case(Path(jaxcfa.__file__).parent / "data" / "arm7.urdf"),
    "MJCF": lambda: Case(Path(mujoco.__file__).parent / "mjx" / "test_data" / "humanoid" / "humanoid.xml"),
    "batch": lambda: Case(Path(jaxcfa.__file__).parent / "data" / "arm7.urdf", robots=16),
}


def chromium() -> str:
    names = (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        pytest.fail(
            "The tests of the viewer need Chromium: `make browser` installs it on Debian and Ubuntu; elsewhere let "
            "CHROMIUM be the path of one.",
            pytrace=False,
        )
    return found


@pytest.fixture(scope="module")
def browser():
    """With a profile of its own, which is empty and goes away."""
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=ARGUMENTS)
        yield browser
        browser.close()


@contextlib.contextmanager
def opened(browser, width: int = 900, height: int = 500):
    """An empty page, and the addresses that it will have asked for."""
    page = browser.new_page(viewport={"width": width, "height": height})
    page.set_default_timeout(1000 * PATIENCE)
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    page.on("websocket", lambda socket: addresses.append(socket.url))
    try:
        yield page, addresses
    finally:
        page.close()


def picture(page, clip: dict[str, int] = SCENE) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("RGB"), dtype=float)


def difference(a: np.ndarray, b: np.ndarray) -> float:
    """The part of the picture that is not the same."""
    return float(np.mean(np.abs(a - b).max(axis=2) > 8))


def settled(page, wanted: Callable[[np.ndarray], bool]) -> np.ndarray:
    """The picture once it is as wanted and no longer changes."""
    deadline = time.monotonic() + PATIENCE
    before = picture(page)
    while time.monotonic() < deadline:
        page.wait_for_timeout(200)
        now = picture(page)
        if np.array_equal(before, now) and wanted(now):
            return now
        before = now
    FAILED.parent.mkdir(exist_ok=True)
    Image.fromarray(before.astype(np.uint8)).save(FAILED)
    raise AssertionError(f"The picture is not as expected; see {FAILED}.")


@pytest.mark.parametrize("name", [pytest.param(x, marks=pytest.mark.slow if x == "batch" else ()) for x in CASES])
def test_robot_is_seen_and_moves(name, browser):
    case = CASES[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jaxcfa.io.ModelWarning)
        model = jaxcfa.load_model(case.file, case.floating_base)
        viewer = Viewer(model, case.file)
    with opened(browser) as (page, addresses), viewer:
        if case.robots > 1:
            keys = jax.random.split(jax.random.key(0), case.robots)
            viewer.show(jax.vmap(lambda key: jaxcfa.random_configuration(model, key))(keys))
        viewer.robot.visible = False
        page.goto(viewer.url)
        without = settled(page, lambda now: now.std() > 2)  # the ground
        viewer.robot.visible = True
        there = settled(page, lambda now: difference(now, without) > 0.01)

        q = viewer.robot.q
        number = 5 if name in ("meshes", "MJCF") else 0  # how a free base is turned; its place may not be in sight
        control, handle = viewer._sliders._sliders[number]
        slider = page.get_by_role("slider").nth(number)
        slider.focus()
        slider.press("End")
        moved = settled(page, lambda now: difference(now, there) > 0.002)
        assert difference(moved, without) > 0.01
        assert value_of(control, viewer.robot.q[0]) == pytest.approx(control.upper) == handle.value
        assert value_of(control, q[0]) < control.upper - 0.1
        np.testing.assert_array_equal(viewer.robot.q[1:], q[1:])

        page.get_by_role("button", name="Reset").click()
        settled(page, lambda now: difference(now, moved) > 0.002)
        np.testing.assert_array_equal(viewer.robot.q[0], initial(model))  # as the robot stands in its file
        assert page.title()
    here = viewer.url.removeprefix("http://")
    assert all(address.startswith((f"http://{here}", f"ws://{here}", "data:", "blob:")) for address in addresses)
    assert f"ws://{here}/" in addresses


def test_motion_is_played(browser):
    model = jaxcfa.chain(4)
    qs = np.linspace(0, 1, 21)[:, None] * np.ones(4)
    with opened(browser) as (page, _), Viewer(model) as viewer:
        page.goto(viewer.url)
        straight = settled(page, lambda now: now.std() > 2)
        viewer.add_trail(model.body_names[-1])
        viewer.play(qs, 0.05, loop=False)
        bent = settled(page, lambda now: difference(now, straight) > 0.002)
        np.testing.assert_array_equal(viewer.robot.q[0], qs[-1])
        page.get_by_role("slider").first.press("Home")  # the time
        settled(page, lambda now: difference(now, bent) > 0.002)
        np.testing.assert_array_equal(viewer.robot.q[0], qs[0])


def test_page_of_a_motion(browser, tmp_path):
    """It plays by itself, shows forces, and asks for nothing but itself."""
    text = '<mujoco><worldbody><body name="ball"><freejoint/><geom size="0.3"/></body></worldbody></mujoco>'
    ball = jaxcfa.load_model(text)
    contacts = jaxcfa.ground_contacts(ball, "ball", radius=0.3)
    start, still = jnp.array([0, 0, 0.3, 1, 0, 0, 0.0]), jnp.array([1.0, 0, 0, 0, 0, 0])
    motion = jaxcfa.rollout(ball, start, still, jnp.zeros((100, 6)), dt=0.02, contacts=contacts)
    file = tmp_path / "pages" / "ball.html"
    with Viewer(ball, viz.load_visuals(text, ball)) as viewer:
        viewer.save(file, motion, contacts=contacts, frames_per_second=10.0)
        assert viewer.robot.q[0] == pytest.approx(motion.q[-1])
    assert 0.3e6 < file.stat().st_size < 3e6
    # A small page: it is drawn again and again while it plays, by a processor that has other work.
    scene = {"x": 0, "y": 175, "width": 400, "height": 180}  # below a note and above the times
    with opened(browser, 400, 400) as (page, addresses):
        page.goto(file.as_uri())
        pictures = [picture(page, scene)]
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and not any(difference(x, pictures[-1]) > 0.002 for x in pictures):
            page.wait_for_timeout(300)
            pictures.append(picture(page, scene))
            pictures = [x for x in pictures if x.std() > 2]  # what is not empty yet
            pictures = pictures or [picture(page, scene)]
        assert any(difference(x, pictures[-1]) > 0.002 for x in pictures), "nothing moves"
    assert all(address.startswith(("file:", "data:", "blob:")) for address in addresses)
