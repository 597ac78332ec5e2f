"""The page of `anydml explore` in a real browser: faults at their fields, pictures, steps, links, on a phone too.

ANYDML_SCREENSHOTS=DIR keeps what was seen.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import browser

if TYPE_CHECKING:
    from collections.abc import Iterator

NEEDS = {"websockets": "requirements/browser.txt", "starlette": "requirements/explore.txt"}
pytestmark = [
    pytest.mark.skipif(browser.PROGRAM is None, reason="no browser here: install chromium"),
    *[
        pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"needs {file}")
        for name, file in NEEDS.items()
    ],
]
KEPT = os.environ.get("ANYDML_SCREENSHOTS")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address that the command prints, until it is interrupted."""
    command = [sys.executable, "-m", "anydml", "explore", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - our own code
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 0


@pytest.fixture(scope="module")
def tab() -> Iterator[browser.Page]:
    with browser.start() as found:
        yield found


@pytest.fixture(scope="module")
def gpu_tab() -> Iterator[browser.Page]:
    with browser.start(browser.WEBGPU) as found:
        yield found


class Explorer:
    """The page, as somebody uses it."""

    def __init__(self, tab: browser.Page, address: str) -> None:
        self.tab, self.address = tab, address
        self.own = address.partition("?")[0]

    def open(self, operator: str, width: int = 1280, *, is_dark: bool = False) -> None:
        self.tab.open(f"{self.address}#operator/{operator}", width=width, is_dark=is_dark)
        self.tab.wait("document.querySelector('#verdict')?.className")

    def type(self, key: str, text: str) -> None:
        """Type into a field, and wait for what comes of it."""
        self.tab.run("document.querySelector('#command').value = ''")
        self.tab.type(f"#field-{key}", text)
        self.tab.wait("document.querySelector('#command').value")

    def fault(self, key: str) -> str:
        return str(self.tab.run(f"document.querySelector('#fault-{key}').textContent"))

    def text(self, selector: str) -> str:
        return str(self.tab.run(f"document.querySelector('{selector}').textContent"))

    def step(self, key: str, code: int) -> tuple[str, list[str], list[str]]:
        """Press a key; the sentence, the element that is shown, and its sources."""
        self.tab.press(key, code)
        lit = "[...document.querySelectorAll('#picture td.%s')].map(c => c.dataset.k)"
        return self.text("#picture .says"), self.tab.run(lit % "point"), self.tab.run(lit % "lit")

    def keep(self, name: str) -> None:
        if KEPT:
            self.tab.screenshot(Path(KEPT) / (re.sub(r"\W+", "_", name) + ".png"))


@pytest.fixture
def page(tab: browser.Page, address: str) -> Explorer:
    return Explorer(tab, address)


SLICE1 = "slice1?sizes=4,4&offsets=0,1&window=4,3&strides=-2,2"


def test_faults_stand_at_their_fields_as_somebody_types(page: Explorer) -> None:
    page.open(SLICE1)
    assert page.text("#verdict") == "Valid from feature level 3_0 on"
    assert "[ 6.,  8.]" in page.text("#answers pre")
    page.type("sizes", "4,0")
    assert page.fault("sizes") == "InputTensor.Sizes[1] must be at least 1; got 0"
    assert page.tab.run("document.querySelector('#field-sizes').getAttribute('aria-invalid')") == "true"
    assert page.text("#verdict") == "1 fault; below, the last valid one"
    page.type("strides", "0,x")
    assert "is no list of whole numbers" in page.fault("strides")
    assert page.text("#verdict").startswith("2 faults")
    page.keep("explore faults")
    page.type("sizes", "4,4")
    page.type("strides", "0,1")
    assert page.fault("sizes") == ""
    assert page.fault("strides").startswith("InputWindowStrides[0] must not be 0")
    page.type("strides", "1,1")
    assert page.text("#verdict") == "Valid from feature level 3_0 on"
    assert page.text("#answers pre").count("\n") == 3
    assert page.tab.complaints(page.own) == []


@pytest.mark.parametrize(
    ("operator", "said"),
    [
        (SLICE1, "OutputTensor: all 4 elements are the server's"),
        ("element_wise_add?data=[1,2.5,-3]&b-data=[0.25,1,1e10]", "OutputTensor: all 3 elements are the server's"),
        ("gather?type=FLOAT16&sizes=3,4&indices=2,0&axis=1", "elements are the server's"),
        ("fill_value_constant", "elements are the server's"),
        ("split", "OutputTensors[1]: all"),
        ("quantize", "elements are the server's"),
    ],
    ids=lambda text: text.partition("?")[0],
)
def test_an_operator_runs_on_the_browsers_gpu(gpu_tab: browser.Page, address: str, operator: str, said: str) -> None:
    page = Explorer(gpu_tab, address)
    page.open(operator)
    assert page.text("#verdict").startswith("Valid")
    page.tab.wait("!document.querySelector('#live').hidden")
    page.tab.run("document.querySelector('#run-live').click()")
    page.tab.wait("document.querySelector('#live-said').textContent.match(/^(?!Running)./)")
    assert said in page.text("#live"), page.text("#live")
    assert re.search(r"\d (ms|µs)", page.text("#live-said"))
    numbers = [re.findall(r"[-+\d.e]+", page.text(f"#{one} pre").replace("[", " ")) for one in ("answers", "live")]
    assert [float(one) for one in numbers[0]] == [float(one) for one in numbers[1]]
    assert page.tab.complaints(page.own) == []
    page.keep(f"explore live {operator}")


def test_what_nobody_says_is_shown_in_its_place(page: Explorer) -> None:
    page.open(SLICE1)
    page.type("sizes", "")
    assert "give InputTensor.Sizes or InputTensor.Data" in page.fault("sizes")
    page.type("data", "[[1,2,3,4],[5,6,7,8],[9,10,11,12],[13,14,15,16]]")
    assert page.tab.run("document.querySelector('#field-sizes').placeholder") == "4,4"
    assert page.tab.run("document.querySelector('#field-output-sizes').placeholder") == "2,2"
    assert page.tab.run("document.querySelector('#field-type').options[0].text") == "auto: FLOAT32"


def test_the_level_that_is_checked_for_can_be_chosen(page: Explorer) -> None:
    page.open("cumulative_summation?data=1,2,3&axis=0&feature-level=2_1")
    assert page.fault("sizes").startswith("InputTensor of 1 dimension needs DML_FEATURE_LEVEL_4_0")
    assert page.text("#verdict") == "1 fault; valid from feature level 4_0 on"


def test_keys_step_through_the_elements_of_the_output(page: Explorer) -> None:
    page.open(SLICE1)
    page.tab.run("document.activeElement.blur()")
    arithmetic, pointed, lit = page.step("ArrowRight", 39)
    assert (arithmetic, pointed, lit) == ("output[0,0] = input[3 - 2*0, 1 + 2*0] = input[3,1] = 14", ["1.0"], ["0.13"])
    assert page.text("#steps output") == "1 of 4"
    assert page.step("ArrowRight", 39)[1:] == (["1.1"], ["0.15"])
    assert page.step("End", 35)[1] == ["1.3"]
    assert page.step("ArrowRight", 39)[1] == ["1.3"]
    assert page.step("ArrowLeft", 37)[1] == ["1.2"]
    assert page.step("Home", 36)[1] == ["1.0"]
    page.type("strides", "1,1")  # the step stays where it was
    assert page.text("#steps output") == "1 of 12"


def test_a_link_and_a_command_line_say_the_same(page: Explorer) -> None:
    page.open(SLICE1)
    page.type("data", "[[0,1,2,3],[4,5,6,7],[8,9,10,11],[12,13,14,-15.5]]")
    shown, command = page.text("#answers pre"), page.tab.run("document.querySelector('#command').value")
    link = page.tab.run("document.querySelector('#link').value")
    assert link == page.tab.run("location.href")
    page.tab.open("about:blank#")
    page.tab.open(link)  # the browser has its cookie still
    page.tab.wait("document.querySelector('#answers pre')")
    assert page.text("#answers pre") == shown
    assert page.tab.run("document.querySelector('#command').value") == command
    assert command == (
        "anydml explain slice1 --sizes 4,4 --data '[[0,1,2,3],[4,5,6,7],[8,9,10,11],[12,13,14,-15.5]]'"
        " --offsets 0,1 --window 4,3 --strides=-2,2"
    )


def test_operators_are_found_by_words_and_opened_by_a_key(page: Explorer) -> None:
    page.open(SLICE1)
    counts = {"concat": 1, "cumsum": 1, "zzz": 0, "softmx": 4, "LayerNorm": 1, "layer norm": 1, "BatchNorm2d": 1}
    for typed, count in counts.items():
        found = f"{count} of 177"
        page.tab.type("#search", typed)
        page.tab.wait(f"document.querySelector('#picker .count').textContent === '{found} operators'", typed)
    page.tab.type("#search", "log soft")
    assert page.text("#picker .count") == "2 of 177 operators"
    page.tab.press("Enter", 13)
    page.tab.wait("document.querySelector('h1').textContent === 'ACTIVATION_LOG_SOFTMAX'")
    page.tab.wait("location.hash.startsWith('#operator/activation_log_softmax?')")
    page.tab.run("history.back()")
    page.tab.wait("document.querySelector('h1').textContent === 'SLICE1'")


def test_a_link_to_nothing_is_told_and_leaves_a_page(page: Explorer) -> None:
    page.open("no_such")
    page.tab.wait("document.querySelector('h1').textContent === 'SLICE1'")
    page.open("slice1?nothing=1")
    assert page.text("#others") == "'nothing' is no option of SLICE1, and is left out"


def test_a_form_is_left_as_it_was_while_somebody_looks_at_the_model(page: Explorer) -> None:
    page.open(SLICE1)
    page.type("strides", "1,1")
    before = page.tab.run("location.hash")
    page.tab.run("document.querySelector('[data-page=model]').click()")
    page.tab.wait("document.querySelector('#model .none')")
    assert page.text("#model pre") == "anydml explore MODEL"
    page.tab.run("document.querySelector('[data-page=operator]').click()")
    page.tab.wait("location.hash.includes('?')")
    assert page.tab.run("location.hash") == before
    assert page.tab.run("document.querySelector('#field-strides').value") == "1,1"


def test_a_server_that_is_gone_is_told(page: Explorer) -> None:
    page.open(SLICE1)
    speed = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.tab.send("Network.emulateNetworkConditions", offline=True, **speed)
    try:
        page.tab.type("#field-strides", "1,1")
        page.tab.wait("document.querySelector('#verdict').className === 'bad'")
        assert page.text("#verdict") == "The server does not answer: start `anydml explore` again."
    finally:
        page.tab.send("Network.emulateNetworkConditions", offline=False, **speed)
    page.type("strides", "1,2")
    assert page.text("#verdict").startswith("Valid")


def test_a_phone_has_a_way_from_the_form_to_the_picture_and_back(page: Explorer) -> None:
    page.open(SLICE1, width=390)
    top = "document.querySelector('%s').getBoundingClientRect().top"
    for selector, after in (("#result", "↑ Form"), (".fields", "↓ Picture")):
        page.tab.run("document.querySelector('#jump').click()")
        page.tab.wait(f"document.querySelector('#jump').textContent === '{after}'")
        assert 0 < page.tab.run(top % selector) < 120
        assert page.tab.run(top % "#top") == 0  # the verdict stays in sight


def test_a_stranger_sees_a_sentence(page: Explorer) -> None:
    page.tab.send("Network.clearBrowserCookies")
    page.tab.open(f"{page.own}?token=wrong")
    assert "open the address that `anydml explore` printed" in page.text("body")


# Fields, buttons and texts that lie on one another or are cut at the page's sides.
OVERLAPS = """(() => {
  const seen = [...document.querySelectorAll('#operator label, #operator input, #operator select, #operator textarea,'
    + '#operator button, #operator h1, #operator h2, #operator .fault, #operator summary, #operator legend,'
    + '#operator pre, #operator .legend, header a, header button')]
    .filter(e => e.checkVisibility({visibilityProperty: true}));
  const found = [], boxes = seen.map(e => {
    const r = e.getBoundingClientRect();
    return {e, l: r.left + 1, r: r.right - 1, t: r.top + 1, b: r.bottom - 1};
  }).filter(o => o.r > o.l && o.b > o.t);
  const apart = (a, b) => a.l >= b.r || b.l >= a.r || a.t >= b.b || b.t >= a.b;
  boxes.forEach((a, i) => {
    if (a.l < 0 || a.r > document.documentElement.clientWidth) found.push('outside: ' + a.e.outerHTML.slice(0, 90));
    boxes.slice(0, i).forEach(b => {
      const inside = a.e.contains(b.e) || b.e.contains(a.e) || a.e.closest('#families') || b.e.closest('#families');
      const scrolls = a.e.closest('#result') !== b.e.closest('#result');
      if (!inside && !scrolls && !apart(a, b)) found.push(a.e.outerHTML.slice(0, 90) + b.e.outerHTML.slice(0, 90));
    });
  });
  return found;
})()"""


FAULTY = "slice1?sizes=4,0&strides=x"


@pytest.mark.parametrize(
    ("operator", "width"),
    [(FAULTY, 360), (FAULTY, 800), (FAULTY, 1280), ("multihead_attention", 360), ("join", 1280), ("convolution", 360)],
)
def test_nothing_overlaps_or_is_cut(page: Explorer, operator: str, width: int) -> None:
    page.open(operator, width=width, is_dark=width == 360)
    page.keep(f"explore {operator} {width}")
    assert page.tab.run(OVERLAPS) == []
    assert page.tab.run("document.documentElement.scrollWidth") <= width
    contrast, where = page.tab.run(browser.CONTRAST.replace(".anydml-picture, .anydml-picture *", "body *:not(script)"))
    assert contrast >= 4.5, where
    assert page.tab.complaints(page.own) == []


def test_what_is_typed_at_does_not_move(page: Explorer) -> None:
    page.open("gemm")
    parts = "['h1', '#field-b-data', '#verdict', '#picture', '#answers']"
    places = f"{parts}.map(s => document.querySelector(s).getBoundingClientRect().top)"
    before = page.tab.run(places)
    page.type("b-data", "[[5,6],[7,x]]")
    assert page.fault("b-data")
    assert page.tab.run(places) == before
    page.type("b-data", "[[5,6],[7,9]]")
    assert page.tab.run(places) == before


UNNAMED = """[...document.querySelectorAll('input, select, textarea, button')].filter(
  e => !(e.labels?.length || e.ariaLabel || e.textContent.trim())).map(e => e.outerHTML)"""


def test_every_field_has_a_name(page: Explorer) -> None:
    page.open("gru")
    assert page.tab.run(UNNAMED) == []
    names = page.tab.run("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(names) == len(set(names))
    first = page.tab.run("document.querySelector('#theme').click(), document.documentElement.dataset.theme")
    ground = page.tab.run("getComputedStyle(document.body).backgroundColor")
    second = page.tab.run("document.querySelector('#theme').click(), document.documentElement.dataset.theme")
    assert {first, second} == {"light", "dark"}
    assert page.tab.run("getComputedStyle(document.body).backgroundColor") != ground
    page.tab.run("localStorage.clear()")


def test_a_page_of_one_file_steps_without_a_server(tab: browser.Page, tmp_path: Path) -> None:
    path = tmp_path / "gather.html"
    command = [sys.executable, "-m", "anydml", "explore", "gather", "--html", str(path), "--sizes", "3,4",
               "--indices", "3,3,0", "--axis", "1"]  # fmt: skip
    subprocess.run(command, check=True)  # noqa: S603 - our own code
    tab.open(path, width=360)
    tab.press("ArrowRight", 39)
    tab.press("ArrowRight", 39)
    assert tab.run("document.querySelector('#steps output').textContent") == "2 of 9"
    assert tab.run("document.querySelector('#picture .says').textContent").startswith("output[0,1] = ")
    assert tab.run("document.querySelectorAll('td.lit').length") == 2
    assert tab.run("document.documentElement.scrollWidth") <= 360
    assert tab.complaints() == []
