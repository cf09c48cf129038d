"""Drives a headless Chromium over its DevTools pipe: no package and no port is needed."""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile

PROGRAMS = "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"


def program():
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


class Browser:
    """One page. `errors` collects what the console shows as errors, and exceptions."""

    def __init__(self, width=1280, height=900):
        self.errors, self.received, self.number, self.loaded = [], b"", 0, 0
        self.profile = tempfile.TemporaryDirectory()
        commands, answers = os.pipe(), os.pipe()
        # The program reads commands from descriptor 3 and writes answers to 4. The shell moves them there.
        shell = f'exec "$@" 3<&{commands[0]} 4>&{answers[1]}'
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe",
                   f"--user-data-dir={self.profile.name}", f"--window-size={width},{height}", "about:blank"]
        self.process = subprocess.Popen(["bash", "-c", shell, "-", program(), *options], pass_fds=(commands[0], answers[1]),
                                        stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        os.close(commands[0])
        os.close(answers[1])
        self.commands, self.answers, self.session = commands[1], answers[0], None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log", "Network":
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.profile.cleanup()

    def message(self):
        while b"\0" not in self.received:
            if not select.select([self.answers], [], [], 60)[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self.answers, 1 << 16)
            if not part:
                raise EOFError("the browser has ended")
            self.received += part
        text, self.received = self.received.split(b"\0", 1)
        return json.loads(text)

    def handle(self, message):
        method, about = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        if method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
            self.errors.append(str(about["args"]))
        if method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.errors.append(about["entry"]["text"])
        if method == "Network.requestWillBeSent" and not about["request"]["url"].startswith(("file:", "data:", "about:")):
            self.errors.append("a request for " + about["request"]["url"])
        if method == "Page.loadEventFired":
            self.loaded += 1

    def call(self, method, **about):
        self.number += 1
        number, message = self.number, {"id": self.number, "method": method, "params": about}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") != number:
                self.handle(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def await_load(self, count):
        """Waits until this many pages were loaded in all."""
        while self.loaded < count:
            self.handle(self.message())

    def open(self, file):
        count = self.loaded + 1
        self.call("Page.navigate", url=pathlib.Path(file).resolve().as_uri())
        self.await_load(count)

    def run(self, script):
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", "?"))
        return answer["result"].get("value")

    def key(self, name):
        for kind in "keyDown", "keyUp":
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name)

    def media(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.frame()

    def frame(self):
        """Returns after the page has drawn itself again."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def picture(self, file, width=1280, height=None):
        """A PNG of the page: all of it without a height."""
        whole = height or self.run("document.documentElement.scrollHeight")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=whole, deviceScaleFactor=1, mobile=False)
        if not height:
            whole = self.run("document.documentElement.scrollHeight")
            self.call("Emulation.setDeviceMetricsOverride", width=width, height=whole, deviceScaleFactor=1, mobile=False)
        self.frame()
        pathlib.Path(file).write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
