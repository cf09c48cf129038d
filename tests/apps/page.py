"""Opens report.html and compare.html in a browser: page.py REPORT METRICS COMPARISON GROUPED HOSTILE OLD NAN LIVE KILLED EARLY. Exits with 1
at a fault, and with 77 if there is no browser. The numbers on the page must be those of METRICS."""
import json
import math
import sys
import time

import browser

report, metrics, comparison, grouped, hostile, old, nan, live, killed, early = sys.argv[1:]
if not browser.program():
    sys.exit(77)
rows = [json.loads(line) for line in open(metrics)]
train = [row for row in rows if row["kind"] == "train"]
evaluations = [row for row in rows if row["kind"] == "evaluation"]


def near(a, b):
    return math.isclose(a, b, rel_tol=6e-4, abs_tol=1e-9)


def number(text):
    return float(text.replace(",", "").split()[0])


with browser.Browser() as page:
    page.media("light")
    page.open(report)
    charts = page.run("view.charts.map((c) => [c.spec.id, c.lines.map((l) => [l.series.name, l.raw, c.svg.querySelectorAll('path.line').length])])")
    assert {name for name, _ in charts} >= {"loss", "accuracy", "learning_rate", "images_per_s", "exposed_communication", "step_time"}, charts
    for name, lines in charts:
        assert lines and all(drawn == len(lines) for *_, drawn in lines), (name, lines)
    drawn = {(chart, series): points for chart, lines in charts for series, points, _ in lines}
    assert drawn["learning_rate", "learning_rate"] == [[row["step"], row["learning_rate"]] for row in train]
    loss = next(lines for name, lines in charts if name == "loss")
    assert loss[0][1] == [[row["step"], row["loss"]] for row in train], loss
    assert loss[1][1] == [[row["step"], row["loss"]] for row in evaluations], loss
    tiles = page.run("Object.fromEntries([...document.querySelectorAll('[data-tile]')].map((t) => [t.dataset.tile, t.querySelector('b').textContent]))")
    assert near(number(tiles["Training loss"]), train[-1]["loss"]), tiles
    assert near(number(tiles["Last accuracy"]), round(100 * evaluations[-1]["top1"], 2)), tiles
    assert near(number(tiles["Best accuracy"]), round(100 * max(row["top1"] for row in evaluations), 2)), tiles
    legends = page.run("[...document.querySelectorAll('#chart-loss .legend b')].map((b) => b.textContent)")
    assert near(number(legends[0]), train[-1]["loss"]) and near(number(legends[1]), evaluations[-1]["loss"]), legends
    assert page.run("document.querySelectorAll('circle[clip-path]').length") == 0
    assert page.run("document.querySelectorAll('#chart-loss .change').length") == 1
    assert "lost host a (rank 2)" in page.run("document.getElementById('machine').textContent")
    assert page.run("[...document.querySelectorAll('#chart-accuracy .legend span')].map((s) => s.firstElementChild.nextSibling.textContent)") == \
        ["training", "test", "test, top-5"]
    assert page.run("document.querySelector('#chart-loss .title').textContent") == "step"
    widths = page.run("[...document.querySelectorAll('[data-cell^=\"0,\"]')].map((c) => Math.round(c.getBoundingClientRect().width))")
    assert len(widths) == 10 and max(widths) - min(widths) <= 1, widths
    assert page.run("document.getElementById('live').hidden")
    # The confusion matrix counts every sample, and its diagonal the right ones.
    cells = page.run("[...document.querySelectorAll('[data-cell]')].map((c) => [c.dataset.cell, Number(c.textContent)])")
    assert len(cells) == 100 and sum(n for _, n in cells) == evaluations[-1]["samples"], cells
    right = sum(n for cell, n in cells if len(set(cell.split(","))) == 1)
    assert near(right / evaluations[-1]["samples"], evaluations[-1]["top1"]), right
    assert page.run("document.querySelectorAll('#precision-recall path.line').length") == 8, "the lowest of ten classes"
    areas = page.run("[...document.querySelectorAll('#precision-recall .legend b')].map((b) => Number(b.textContent))")
    assert areas == sorted(areas) and all(0 < area <= 1 for area in areas), areas
    assert f"F1 {evaluations[-1]['f1']:.4f}" in page.run("document.getElementById('classes').textContent")
    assert page.run("document.querySelectorAll('.mistakes img').length") == 18
    assert page.run("[...document.images].every((i) => i.complete && i.naturalWidth === 32)")
    assert page.run("[...document.querySelectorAll('tr.changed td:first-child')].map((c) => c.textContent)").count("--log-every") == 1
    # Keys move the cursor of all charts.
    page.run("document.querySelector('#chart-loss svg').focus()")
    page.key("End")
    page.key("ArrowLeft")
    assert page.run("view.cursor") == train[-2]["step"]
    assert page.run("document.querySelectorAll('.cursor').length") == len(charts)
    assert page.run("document.querySelector('#chart-loss .tip').textContent").startswith(f"step {train[-2]['step']}")
    # Light, dark, and the switch.
    light = page.run("getComputedStyle(document.body).backgroundColor")
    page.media("dark")
    dark = page.run("getComputedStyle(document.body).backgroundColor")
    assert light != dark, light
    page.run("document.getElementById('theme').click()")
    assert page.run("getComputedStyle(document.body).backgroundColor") == light
    page.run("document.getElementById('theme').click(); document.getElementById('theme').click()")

    page.open(comparison)
    assert page.run("view.charts.find((c) => c.spec.id === 'loss').lines.length") >= 2
    assert page.run("document.querySelectorAll('#results tbody tr').length") == 2
    assert page.run("[...document.querySelectorAll('#results label')].every((label) => label.offsetHeight < 30)")
    assert page.run("document.getElementById('refresh').hidden"), "no run writes this page again"
    shown = page.run("document.querySelector('#results').textContent")
    assert f"{100 * evaluations[-1]['top1']:.2f} %" in shown, shown
    page.run("document.querySelector('#results input').click()")
    assert page.run("view.charts.find((c) => c.spec.id === 'learning_rate').lines.length") == 1

    assert page.run("!document.getElementById('grouped') && !document.getElementById('means')"), "no runs repeat one experiment"

    # Runs that differ only in their seeds have one line with a band: here losses of l and 1.5 l.
    page.open(grouped)
    lines = "view.charts.find((c) => c.spec.id === 'loss').lines"
    means = page.run(lines + ".filter((l) => l.series.members && l.series.part === 1).map((l) => l.raw)[0]")
    assert len(means) == len(evaluations), means
    for (step, mean, deviation), row in zip(means, evaluations):
        assert step == row["step"] and near(mean, 1.25 * row["loss"]) and near(deviation, 0.5 * row["loss"] / math.sqrt(2)), (means, row)
    bands = "document.querySelectorAll('#chart-loss .band').length"
    count = page.run(lines + ".length")
    assert page.run(bands) == 2, page.run(bands)
    assert page.run("[...document.querySelectorAll('#means tbody td:nth-child(2)')].map((cell) => cell.textContent)") in (["2", "1"], ["1", "2"])
    assert "2 runs" in page.run("document.querySelector('#chart-loss .legend').textContent")
    page.run("document.querySelector('#grouped input').click()")
    assert [page.run(lines + ".length"), page.run(bands)] == [count + 2, 0], (page.run(lines + ".length"), count)

    assert not page.errors, page.errors
    # A page of hostile texts shows them, and runs none. It refreshes while its run is "running", and keeps its place.
    page.open(hostile)
    assert page.run("document.title") != "owned" and page.run("window.owned === undefined")
    assert page.run("document.getElementById('classes').textContent").count("</script><script>owned=1</script>") > 0
    assert page.run("[!document.getElementById('machine'), !document.getElementById('options')]") == [True, False], "a damaged part"
    page.run("scrollTo(0, 300)")
    page.await_load(page.loaded + 1)
    assert page.run("document.getElementById('refresh').hidden") is False
    assert abs(page.run("scrollY") - 300) < 2, page.run("scrollY")

    assert all("placement" in error for error in page.errors), page.errors  # the damaged part only
    page.errors.clear()
    page.open(old)
    reasons = page.run("[...document.querySelectorAll('section')].filter((s) => s.querySelector('.reason')).map((s) => s.id)")
    assert {"classes", "memory", "commands", "machine"} <= set(reasons), reasons
    assert page.run("view.charts.length") >= 6
    assert not page.errors, page.errors

    page.open(nan)
    marks = "[...document.querySelectorAll('#chart-loss .nan')].map((text) => text.textContent)"
    for _ in range(100):  # a busy browser draws later
        if page.run(marks):
            break
        time.sleep(0.1)
    assert page.run(marks) == ["NaN"], page.run(marks)
    assert page.run("document.querySelectorAll('.nan').length") == 1, "only where the loss is NaN"
    assert "loss NaN" in page.run("document.querySelector('#tiles').textContent")
    assert not page.errors, page.errors

    head = "[document.getElementById('status').textContent, document.getElementById('live').textContent]"
    page.open(live)
    status, text = page.run(head)
    assert status == "running" and "of 100,000" in text and "0 s ago" in text, (status, text)
    page.open(killed)
    status, text = page.run(head)
    assert status == "no news" and "since 2023-11-14" in text and "left" not in text, (status, text)
    page.open(early)
    assert page.run("document.getElementById('status').textContent") == "ended early"
    assert "accuracy 0.01 % is reached" in page.run("document.querySelector('.notice').textContent")
    assert page.run("document.querySelector('.bar i').style.width") == "100%"
    loaded = page.loaded
    time.sleep(7)
    page.run("0")
    assert page.loaded == loaded, "a run that has ended loads no page again"
    assert not page.errors, page.errors
