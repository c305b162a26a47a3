"""Reports in headless Chromium: no error, no request, and pictures are drawn."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
def plan_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    words = ["plan", "--profile", "lr-deepseek-gsm8k", "-n", "4", "--concurrency", "1,4"]
    return reported(tmp_path_factory.mktemp("report") / "plan.html", *words)


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
    assert [url for url in asked if not url.startswith("data:")] == [page]
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


def test_drawings_are_drawn(browser: Any, plan_page: str) -> None:
    """In their own colours, which the page's policy must not take away."""
    opened(browser, plan_page)
    colours = (
        "const image = document.querySelector('figure img'), canvas = document.createElement('canvas');"
        "canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;"
        "const on = canvas.getContext('2d'); on.drawImage(image, 0, 0);"
        "const {data} = on.getImageData(0, 0, canvas.width, canvas.height), seen = {};"
        "for (let i = 0; i < data.length; i += 4) seen[data.slice(i, i + 3)] = (seen[data.slice(i, i + 3)] || 0) + 1;"
        "return Object.entries(seen).sort((one, other) => other[1] - one[1]).map(([colour]) => colour)"
    )
    first, *others = browser.execute_script(colours)
    assert first == "255,255,255"
    assert {"31,119,180", "255,127,14"} < set(others)
