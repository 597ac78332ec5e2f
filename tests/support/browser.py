"""A browser for the tests: chromium, spoken with in its own DevTools protocol."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
]
PATIENCE = 240

# The least contrast of any text with what it stands on, and where; backgrounds are the nearest that is not transparent.
CONTRAST = """(() => {
  const numbers = c => c.match(/[\\d.]+/g).map(Number);
  const part = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = c => { const [r, g, b] = numbers(c).map(part); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = e => {
    for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if (numbers(c)[3] !== 0) return c;
    }
    return 'rgb(255, 255, 255)';
  };
  const found = [];
  for (const e of document.querySelectorAll('.anydml-picture, .anydml-picture *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(ground(e))];
    found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.outerHTML.slice(0, 90)]);
  }
  return found.sort((a, b) => a[0] - b[0])[0];
})()"""


class Page:
    """A page of a browser that is open, and what happened in it since it was loaded."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._number = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> Any:
        """Ask for something, and wait for the answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv(timeout=PATIENCE))
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def open(self, path: Path | str, width: int = 1000, height: int = 800, *, is_dark: bool = False) -> None:
        """Show a file, or an address, as large as this."""
        address = path if isinstance(path, str) else path.as_uri()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.send("Page.navigate", url="about:blank")
        self.events.clear()
        self.send("Page.navigate", url=address)
        # The address of a page with a server loses its token on the way.
        loaded = "about:blank" if isinstance(path, str) else address
        is_there = (
            f"document.readyState === 'complete' && (location.href === {loaded!r}) === {str(loaded == address).lower()}"
        )
        self.wait(is_there, f"{path} is not loaded")

    def wait(self, script: str, otherwise: str = "") -> None:
        """Wait until an expression in the page is true."""
        limit = time.monotonic() + PATIENCE
        while not self.run(f"!!({script})"):
            assert time.monotonic() < limit, otherwise or script
            time.sleep(0.02)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def hover(self, selector: str) -> None:
        """Move the mouse to the middle of an element."""
        x, y = self._middle(selector)
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def touch(self, selector: str) -> None:
        """Touch an element with a finger, and let go."""
        x, y = self._middle(selector)
        self.send("Emulation.setTouchEmulationEnabled", enabled=True)
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.send("Emulation.setTouchEmulationEnabled", enabled=False)

    def press(self, key: str, code: int) -> None:
        """Press a key."""
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def _middle(self, selector: str) -> tuple[float, float]:
        place = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{place}.scrollIntoView({{block: 'center', inline: 'center'}})")
        x, y = self.run(f"(r => [r.x + r.width / 2, r.y + r.height / 2])({place}.getBoundingClientRect())")
        return x, y

    def screenshot(self, path: Path) -> None:
        """Keep what is to be seen, the whole page."""
        answer = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def type(self, selector: str, text: str) -> None:
        """Put text into a field, in place of what was there, as a keyboard does."""
        self.run(f"(e => {{ e.focus(); e.select(); }})(document.querySelector({json.dumps(selector)}))")
        if text:
            self.send("Input.insertText", text=text)
        else:
            self.press("Backspace", 8)

    def complaints(self, own: str = "file:") -> list[str]:
        """What went wrong, and what was asked of others than the page's own, since the page was opened."""
        bad = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
        found = [json.dumps(e["params"]) for e in self.events if e.get("method") in bad]
        asked = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return found + [url for url in asked if not url.startswith((own, "data:"))]


WEBGPU = ("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")
"""For pages that compute by WebGPU: on the CPU, by SwiftShader."""


@contextlib.contextmanager
def start(more: Sequence[str] = ()) -> Iterator[Page]:
    """A browser with one page, and more options, in a profile of its own that is thrown away."""
    from websockets.sync.client import connect

    assert PROGRAM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [PROGRAM, *OPTIONS, *more, f"--user-data-dir={profile}", "about:blank"]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603 - found by us
        try:
            port, path = _address(Path(profile) / "DevToolsActivePort", browser)
            with connect(f"ws://127.0.0.1:{port}{path}", max_size=None, proxy=None) as socket:
                yield Page(socket)
        finally:
            browser.terminate()
            try:
                browser.wait(10)
            except subprocess.TimeoutExpired:
                browser.kill()
                browser.wait()


def _address(file: Path, browser: subprocess.Popen[bytes]) -> tuple[str, str]:
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        assert browser.poll() is None, f"{PROGRAM} ended with status {browser.returncode}"
        with contextlib.suppress(OSError, ValueError):
            port, path = file.read_text().split()
            return port, path
        time.sleep(0.05)
    raise AssertionError(f"{PROGRAM} does not answer")
