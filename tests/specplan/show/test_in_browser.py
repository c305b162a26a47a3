"""Reports in headless Chromium: no error, no request, sliders and zoom work, the closed forms are theory's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from theory.speedup import f_async, f_sync

pytestmark = pytest.mark.browser

SWITCHES = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (extra dev)")
    from selenium.webdriver.chrome.service import Service

    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no chromium and chromedriver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for switch in (*SWITCHES, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=Service(driver))
    yield opened
    opened.quit()


def reported(path: Path, *words: str) -> str:
    """The page of a command's report, which is below a megabyte."""
    from specplan.cli import cli

    cli.main([*words, "--report", str(path), "-o", str(path.with_name("out"))], "specplan", standalone_mode=False)
    assert path.stat().st_size < 1_000_000
    return path.as_uri()


@pytest.fixture(scope="module")
def plan_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A plan's report with a rough grid of simulations."""
    from specplan.show import explorer

    words = ["plan", "--profile", "lr-deepseek-gsm8k", "-n", "4", "--concurrency", "1,4"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explorer, "_ANSWERS", 8)
        yield reported(tmp_path_factory.mktemp("report") / "plan.html", *words)


@pytest.fixture(scope="module")
def ledger_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return reported(tmp_path_factory.mktemp("report") / "theorems.html", "theorems")


def opened(browser: Any, page: str, *, width: int = 1200, dark: bool = False) -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    browser.get("about:blank")
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get(page)


@pytest.mark.parametrize("name", ["plan_page", "ledger_page"])
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (375, False)])
def test_no_error_no_request_and_nothing_wider_than_the_screen(
    browser: Any, request: pytest.FixtureRequest, name: str, width: int, dark: bool
) -> None:
    page = request.getfixturevalue(name)
    opened(browser, page, width=width, dark=dark)
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
    assert asked == [page]
    wide, screen = browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= screen
    colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (colour == "rgb(18, 23, 29)") is dark


def test_what_a_script_may_not_do(browser: Any, ledger_page: str) -> None:
    """The policy holds: a script that is added does not run, and nothing can be fetched."""
    opened(browser, ledger_page)
    browser.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.ran = true'; document.body.append(s);"
        "const i = new Image(); i.src = 'http://127.0.0.1:9/x.png'; document.body.append(i);"
    )
    assert browser.execute_script("return window.ran === undefined")
    told = " ".join(entry["message"] for entry in browser.get_log("browser"))
    assert "Content Security Policy" in told


def test_the_closed_forms_are_theorys(browser: Any, plan_page: str) -> None:
    opened(browser, plan_page)
    alphas = [0.0, 1e-9, 0.1, 0.3, 0.5, 0.63, 0.75, 0.9, 0.99, 1 - 1e-6, 1 - 1e-12, 1.0]
    costs = [0.0, 1e-6, 0.01, 1 / 49, 0.1, 0.25, 1 / 3, 0.5, 0.7, 1.0]
    points = [(a, c, k) for a in alphas for c in costs for k in (1, 2, 3, 4, 7, 10, 12, 49, 64)]
    # At alpha1 = 1, c1 = 0 both are k.
    script = "return arguments[0].map(([a, c, k]) => [specplanReport.fSync(a, c, k), specplanReport.fAsync(a, c, k)])"
    for (a, c, k), found in zip(points, browser.execute_script(script, points), strict=True):
        expected = [float(f_sync(a, c, k)), float(f_async(a, c, k))]
        assert found == pytest.approx(expected, rel=1e-12), (a, c, k)


def test_between_points_of_the_grid_it_is_linear(browser: Any, plan_page: str) -> None:
    opened(browser, plan_page)
    script = "return specplanReport.interpolated([[0, 1, 3], [0, 2]], [0, 1, 10, 11, 30, 31], arguments[0])"
    for at, expected in (([0, 0], 0), ([1, 2], 11), ([2, 1], 20.5), ([3, 2], 31), ([0.5, 0.5], 5.25)):
        assert browser.execute_script(script, at) == pytest.approx(expected, rel=1e-12)
    assert browser.execute_script(script, [3.1, 0]) is None
    assert browser.execute_script(script, [0, -0.1]) is None


@pytest.mark.parametrize(("name", "value"), [("alpha1", 0.9), ("c1", 0.05), ("verify", 0.3), ("at_once", 5)])
def test_sliders_change_the_numbers(browser: Any, plan_page: str, name: str, value: float) -> None:
    opened(browser, plan_page)
    state = (
        "const f = document.querySelector('.explorer'); return [f.querySelector('.result').textContent, "
        "f.querySelector('svg').innerHTML]"
    )
    before = browser.execute_script(state)
    assert "Simulated best" in before[0]
    browser.execute_script(
        "const i = document.querySelector(`.explorer input[name=${arguments[0]}]`); i.value = arguments[1];"
        "i.dispatchEvent(new Event('input'))",
        *(name, value),
    )
    after = browser.execute_script(state)
    assert after[1] != before[1]
    browser.execute_script("document.querySelector('.explorer button').click()")
    assert browser.execute_script(state) == before


def test_the_timeline_zooms(browser: Any, plan_page: str) -> None:
    opened(browser, plan_page)
    script = (
        "const f = document.querySelector('figure.zooms'); f.querySelector(`[data-zoom='${arguments[0]}']`)?.click();"
        "return [...f.querySelectorAll('g[data-a]:not(.hidden)')].length"
    )
    first = browser.execute_script(script, "none")
    assert browser.execute_script(script, "2") < first < browser.execute_script(script, "0")


def test_what_is_pointed_at_tells(browser: Any, plan_page: str) -> None:
    opened(browser, plan_page)
    from selenium.webdriver import ActionChains
    from selenium.webdriver.support.ui import WebDriverWait

    (point, *_) = browser.find_elements("css selector", "svg.interval")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", point)

    def told(browser: Any) -> bool:
        """Point anew each time: a scroll, whose event may come late, rightly hides what was told."""
        ActionChains(browser).move_by_offset(1, 1).move_to_element(point).perform()
        return "speedup" in browser.find_element("id", "tip").text

    WebDriverWait(browser, 10, poll_frequency=0.1).until(told)
