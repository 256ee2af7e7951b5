#!/usr/bin/env python3
"""The status page in Chromium, against an API made up for it: what stands where at the width of a
phone, the search of jobs, the values of curves. A script that runs in the page looks and clicks, and
sends back what it found. Skipped (exit code 77) where no Chromium is installed.
Run: python3 tests/status_page/status_page_test.py"""

import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(os.environ.get("BATON_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
FOLDER = ROOT / "controller" / "status"
# As controller/status/CMakeLists.txt joins them.
PAGE = (FOLDER / "status_page.html").read_text().replace(
    "/* status_page.css */\n", (FOLDER / "status_page.css").read_text())
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

# 150 jobs, newest first: the list has pages of 100, and says little of each.
JOBS = [{"name": f"projects/default/jobs/job-{i}",
         "state": "STATE_RUNNING" if i == 150 else "STATE_FAILED" if i % 50 == 0 else "STATE_SUCCEEDED",
         "step": "3", "total_steps": "10"} for i in range(150, 0, -1)]
# critic/score/mean is 0.1, 0.2, … of steps 1 to 10.
STEPS = [{"step": str(i), "metrics": {"critic/score/mean": i / 10}} for i in range(1, 11)]
EVENTS = [{"revision": "1", "type": "state", "state": "STATE_RUNNING", "time": "2026-01-01T00:00:00Z"},
          {"revision": "2", "type": "evaluation", "step": "3", "message": "accuracy 0.75",
           "time": "2026-01-01T00:00:01Z"}]
# Two cannot be told apart.
SAMPLES = [{"trajectory_id": f"train-{i}", "purpose": "PURPOSE_TRAIN", "step": "3", "prompt_text": "2+2=",
            "response_text": response, "scores": {"reward": int(response == "4")}}
           for i, response in enumerate(("4", "5", "4"))]
WAITS = [{"subject": "step 4", "cause": "a moment", "since": "0.500s"},
         {"subject": "step 4", "cause": "worker actor-0", "since": "7s"},
         {"kind": "batch", "subject": "step 4", "cause": "2 complete <b>groups</b>", "since": "9s"},
         {"kind": "staleness", "subject": "rollouts", "cause": "the trainer", "since": "0.200s"}]
# job-150 is of mode async.
ASYNC = {"effective_spec": {"algorithm": {"mode": "async"}},
         "metrics": {"critic/score/mean": 0.875, "staleness/share_0": 0.25, "staleness/share_1": 0.75,
                     "staleness/share_10": 0, "buffer/complete_groups": 3, "buffer/open_groups": 16,
                     "buffer/stale_dropped_groups": 1, "idle/trainer": 0.125, "idle/rollouts": 0.5,
                     "idle/rollouts_loading": 0.25}}

# In a block: its names are its own.
CHECKS = """{
const found = {};
const until = async (what, condition) => {
  for (let i = 0; i < 200; ++i) {
    if (condition()) return;
    await new Promise(done => setTimeout(done, 50));
  }
  throw new Error('never: ' + what);
};
const names = () => [...document.querySelectorAll('#jobs .name')].map(e => e.textContent);
const tips = () => [...document.querySelectorAll('.tip')].filter(e => !e.hidden).map(e => e.textContent);
const top_ = id => document.getElementById(id).getBoundingClientRect().top;
const search = text => {
  document.getElementById('search').value = text;
  document.getElementById('search').dispatchEvent(new Event('input'));
};
(async () => {
  await until('curves', () => document.querySelector('#charts .chart'));
  found.width = innerWidth;
  found.title = document.getElementById('title').textContent;
  found.reward = document.getElementById('facts').textContent.includes('0.875');
  found.jobAboveList = top_('detail') < top_('list');
  found.wider = document.documentElement.scrollWidth > innerWidth;
  await until('events', () => document.querySelector('#events tbody'));
  found.events = document.getElementById('events').textContent;
  found.samples = [...document.querySelectorAll('#samples tbody tr')].map(e => e.textContent);
  found.waits = document.getElementById('waits').textContent;
  const ahead = document.getElementById('ahead');
  found.ahead = !ahead.hidden;
  found.sides = [...ahead.querySelectorAll('tbody tr')].map(e => e.textContent);
  found.buffer = ahead.querySelector('.facts').textContent;
  found.histogram = ahead.querySelector('svg').getAttribute('aria-label');
  found.columns = [...ahead.querySelectorAll('.column')].map(e => Number(e.getAttribute('height')));
  found.listed = names().length;
  search('job-1');
  await until('a search', () => names().length < 100 && names().includes('job-1'));
  found.searched = names().length;
  search('failed job');
  await until('another', () => names().length === 2);
  found.failed = names();
  search('none-such');
  await until('no job', () => names().length === 0);
  found.none = document.getElementById('jobs').textContent;
  search('');
  await until('all jobs', () => names().length === 100);
  // What the least and the greatest value overlap of the curve, in pixels.
  const line = document.querySelector('#charts .chart .line').getBBox();
  found.covered = [...document.querySelector('#charts .chart').querySelectorAll('text')].map(text =>
    Math.min(text.getBBox().y + text.getBBox().height, line.y + line.height) -
    Math.max(text.getBBox().y, line.y));
  const svg = document.querySelector('#charts .chart svg'), box = svg.getBoundingClientRect();
  const at = (type, share) => svg.dispatchEvent(new PointerEvent(type, {bubbles: true,
    pointerType: 'mouse', clientX: box.left + box.width * share, clientY: box.top + 40}));
  found.before = tips();
  at('pointermove', 0.34);  // of steps 1 to 10 the fourth
  found.tip = tips();
  at('pointermove', 2);
  found.right = tips();
  at('pointerleave', 2);
  found.after = tips();
  document.querySelectorAll('.job')[2].click();
  await until('the other job', () => document.getElementById('title').textContent === 'job-148');
  found.hash = decodeURIComponent(location.hash);
  await until('no panel of a job of mode sync', () => ahead.hidden);
})().catch(error => { found.error = String(error); }).finally(() =>
  fetch('found', {method: 'POST', body: JSON.stringify(found)}));
}"""


class Api(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path, _, query = self.path.partition("?")
        asked = dict(part.split("=", 1) for part in query.split("&") if "=" in part)
        if path == "/":
            page = PAGE.replace("</body>", f"<script>{CHECKS}</script></body>")
            return self.answer(page.encode(), "text/html; charset=utf-8")
        self.answer(json.dumps(self.json(path, asked)).encode(), "application/json")

    def json(self, path, asked):
        if path == "/api/v1/jobs":
            first, size = int(asked.get("page_token", 0)), int(asked.get("page_size", 100))
            rest = first + size < len(JOBS)
            return {"jobs": JOBS[first:first + size], "next_page_token": str(first + size) if rest else ""}
        if path.endswith("/metrics"):
            return {"steps": [s for s in STEPS if int(s["step"]) > int(asked.get("after_step", 0))]}
        if path.endswith("/events"):
            return {"events": [e for e in EVENTS if int(e["revision"]) > int(asked["after"])]}
        for part, items, values in (("trajectories", "trajectories", SAMPLES),
                                    ("checkpoints", "checkpoints", []),
                                    ("explain", "waits", WAITS), ("workers", "workers", [])):
            if path.endswith("/" + part):
                return {items: values}
        job = next((j for j in JOBS if path.endswith(j["name"])), {})  # none: /favicon.ico
        more = ASYNC if job.get("name", "").endswith("job-150") else {}
        return {**job, "metrics": {"critic/score/mean": 0.875}, **more}

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(b"{}", "application/json")
        self.server.found = json.loads(body)
        self.server.done.set()

    def answer(self, body, content_type):
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def look(width):
    """What the page shows in a window of `width` pixels."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.done = threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as profile:
        browser = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
             "--remote-debugging-port=0", f"--window-size={width},844",
             f"http://127.0.0.1:{server.server_port}/"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            if not server.done.wait(120):
                raise AssertionError("the page sent nothing back")
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()
            server.server_close()
    return server.found


class StatusPageTest(unittest.TestCase):
    def check(self, found):
        self.assertNotIn("error", found, found)
        self.assertEqual(found["title"], "job-150")  # the one that runs
        self.assertTrue(found["reward"])  # which the list does not have
        self.assertIn("evaluation: accuracy 0.75", found["events"])
        self.assertEqual(found["samples"], ["2+2=42 times13train", "2+2=503train"])
        self.assertIn("step 4: worker actor-0", found["waits"])
        self.assertNotIn("a moment", found["waits"])  # every step waits for a moment
        self.assertTrue(found["ahead"])
        self.assertEqual(found["sides"], ["trainer13 %2 complete <b>groups</b> for 9 s",
                                          "rollouts50 %25 % loading weights–"])
        self.assertNotIn("groups", found["waits"])  # it is in the panel
        self.assertEqual(found["buffer"], "3complete groups16open groups1stale groups dropped")
        self.assertEqual(found["histogram"],
                         "staleness of the last batch: 0: 25 %, 1: 75 %, 10: 0 %")
        self.assertEqual(len(found["columns"]), 3)
        self.assertAlmostEqual(found["columns"][1], 3 * found["columns"][0])
        self.assertEqual(found["listed"], 100)
        # 1, 10 to 19, 100 to 150: also those beyond the first page.
        self.assertEqual(found["searched"], 1 + 10 + 51)
        self.assertEqual(found["failed"], ["job-100", "job-50"])  # both words, name and state
        self.assertIn("No job matches", found["none"])
        self.assertEqual(len(found["covered"]), 4)
        for overlap in found["covered"]:
            self.assertLessEqual(overlap, 0)
        self.assertEqual(found["before"], [])
        self.assertEqual(found["tip"], ["step 4: 0.4"])
        self.assertEqual(found["right"], ["step 10: 1"])
        self.assertEqual(found["after"], [])
        self.assertEqual(found["hash"], "#projects/default/jobs/job-148")

    def test_at_the_width_of_a_phone_the_selected_job_comes_first(self):
        found = look(390)
        self.check(found)
        self.assertLess(found["width"], 860)
        self.assertTrue(found["jobAboveList"])
        self.assertFalse(found["wider"])

    def test_on_wide_screens_the_job_stands_beside_the_list(self):
        found = look(1280)
        self.check(found)
        self.assertFalse(found["wider"])


if __name__ == "__main__":
    if CHROMIUM is None:
        print("no chromium is installed")
        sys.exit(77)
    unittest.main()
