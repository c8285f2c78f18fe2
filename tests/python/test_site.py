"""The documentation's site in a browser: search, two widths, the dark theme, the keyboard.

Chromium without a window, driven by its DevTools protocol: JSON over a WebSocket, of which this file has the little that it needs.
Skipped where there is no browser or no MkDocs."""
import base64
import functools
import http.server
import importlib.util
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BROWSER = next(filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))), None)
pytestmark = [pytest.mark.skipif(not BROWSER, reason='no browser'),
              pytest.mark.skipif(not importlib.util.find_spec('material'), reason='no mkdocs-material'),
              pytest.mark.xdist_group('site')]


class Page:
    """A tab: call(method, **parameters) asks the browser, js(code) returns the value of an expression."""

    def __init__(self, url):
        host, port, path = re.match(r'ws://([^:/]+):(\d+)(/.*)', url).groups()
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall((f'GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
                              f'Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n').encode())
        self._file = self._socket.makefile('rb')
        while self._file.readline() not in (b'\r\n', b''):
            pass
        self._count = 0

    def call(self, method, **parameters):
        self._count += 1
        data = json.dumps({'id': self._count, 'method': method, 'params': parameters}).encode()
        mask = os.urandom(4)
        size = bytes([0x80 | len(data)]) if len(data) < 126 else bytes([0x80 | 126]) + struct.pack('>H', len(data))
        self._socket.sendall(b'\x81' + size + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))
        while True:
            answer = json.loads(self._frame())
            if answer.get('id') == self._count:
                assert 'error' not in answer, answer
                return answer['result']

    def _frame(self):
        whole, last = b'', False
        while not last:
            first, size = self._file.read(2)
            last = bool(first & 0x80)
            size &= 0x7f
            if size > 125:
                size = int.from_bytes(self._file.read(2 if size == 126 else 8), 'big')
            whole += self._file.read(size)
        return whole

    def js(self, code):
        return self.call('Runtime.evaluate', expression=code, returnByValue=True, awaitPromise=True)['result'].get('value')

    def wait(self, code, seconds=30):
        """The first true value of an expression."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.js(code)
            if value:
                return value
            time.sleep(0.1)
        raise AssertionError(f'never true: {code}')

    def key(self, key, code=0, text=''):
        for kind in 'keyDown', 'keyUp':
            self.call('Input.dispatchKeyEvent', type=kind, key=key, code=key, windowsVirtualKeyCode=code, **({'text': text} if kind == 'keyDown' and text else {}))

    def open(self, url, width=1200, dark=False):
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.call('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}])
        self.call('Page.enable')
        self.call('Page.navigate', url=url)
        self.wait(f'document.readyState === "complete" && location.href.startsWith({json.dumps(url)}) && !!document.querySelector(".md-content")')


@pytest.fixture(scope='module')
def site(tmp_path_factory):
    """The address of a site that was built now."""
    folder = tmp_path_factory.mktemp('site')
    built = subprocess.run([sys.executable, ROOT / 'tools/make_docs.py', folder], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f'http://127.0.0.1:{server.server_port}/'
    server.shutdown()


@pytest.fixture(scope='module')
def page():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen([BROWSER, '--headless', '--no-sandbox', '--disable-gpu', '--remote-debugging-port=0', f'--user-data-dir={profile}',
                                    '--remote-allow-origins=*', 'about:blank'], stderr=subprocess.PIPE, text=True)
        try:
            for line in process.stderr:
                found = re.search(r'listening on ws://([^/]+)/', line)
                if found:
                    break
            threading.Thread(target=process.stderr.read, daemon=True).start()
            import urllib.request
            with urllib.request.urlopen(f'http://{found[1]}/json') as answer:
                tab = next(t for t in json.load(answer) if t['type'] == 'page')
            yield Page(tab['webSocketDebuggerUrl'])
        finally:
            process.terminate()
            process.wait(30)


RESULTS = '[...document.querySelectorAll(".md-search-result__link")].map(a => a.href).join(" ")'


@pytest.mark.parametrize('words, found', [('hidden copy', 'step'), ('safetensors checkpoint', 'saving'), ('layer_norm', 'nn'),
                                          ('DataLoader workers', 'data'), ('td_backward', 'c')])
def test_search_finds_the_page(site, page, words, found):
    page.open(site)
    page.key('/', 191, '/')                         # the keyboard's way in
    page.wait('document.activeElement === document.querySelector(".md-search__input")')
    page.call('Input.insertText', text=words)
    links = page.wait(RESULTS)
    assert f'/{found}' in links, links
    page.key('ArrowDown', 40)
    page.key('Enter', 13, '\r')
    page.wait(f'location.href !== {json.dumps(site)}')


@pytest.mark.parametrize('width', [390, 1300])
@pytest.mark.parametrize('name', ['', 'step/', 'tensors/', 'moving/', 'libraries/', 'python/nn/'])
def test_pages_fit_the_width(site, page, width, name):
    page.open(site + name, width)
    assert page.js('document.documentElement.scrollWidth') <= width
    assert page.js('document.querySelector("h1").getBoundingClientRect().width') <= width
    drawer = page.js('getComputedStyle(document.querySelector(".md-header__button[for=__drawer]")).display')
    assert (drawer != 'none') == (width < 600)      # a phone has its menu behind a button


def test_the_theme_follows_the_system_and_the_button(site, page):
    brightness = '''(() => { const c = getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).map(Number);
        return c[0] + c[1] + c[2]; })()'''
    def forget():                                   # what a visitor has chosen before
        page.call('Page.navigate', url='about:blank')
        page.call('Storage.clearDataForOrigin', origin=site.rstrip('/'), storageTypes='all')
    forget()
    page.open(site + 'tour/', dark=True)
    page.wait('document.body.getAttribute("data-md-color-scheme") === "slate"')
    assert page.js(brightness) < 200
    page.js('document.querySelector("label[for=__palette_0]").click()')             # the button: light, and kept on the next page
    page.wait('document.body.getAttribute("data-md-color-scheme") === "default"')
    page.open(site + 'step/', dark=True)
    page.wait('document.body.getAttribute("data-md-color-scheme") === "default"')
    forget()
    page.open(site + 'tensors/', dark=False)
    page.wait('document.body.getAttribute("data-md-color-scheme") === "default"')
    assert page.js(brightness) > 600


def test_the_keyboard_reaches_content_menu_and_search(site, page):
    page.open(site)
    seen = []
    for _ in range(25):
        page.key('Tab', 9)
        seen.append(page.js('document.activeElement.textContent.trim().slice(0, 40) || document.activeElement.className'))
    assert any('Skip to content' in text for text in seen) and any('Ten minutes' in text for text in seen) and any('Guides' in text for text in seen)
    assert page.js('getComputedStyle(document.activeElement).outlineStyle') != 'none' or page.js('document.activeElement.matches(":focus-visible")')
