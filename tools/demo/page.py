"""The page of a demo run: one HTML file with its own style and SVG charts, nothing loaded from elsewhere."""
from html import escape

STYLE = """
:root{--ink:#1c2430;--soft:#5b6675;--line:#d9dee5;--paper:#fbfbf9;--card:#fff;--ours:#c2571a;--peer:#6f8aa8;--bad:#b3261e;--good:#2e6b3f}
@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--soft:#9aa4b1;--line:#333b46;--paper:#14181d;--card:#1b2027;--ours:#f08a4b;--peer:#7f9cbd;--bad:#ff8a80;--good:#7cc48f}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:0 auto;max-width:60rem;padding:2rem 1rem}
h1{margin:0 0 .2rem}h2{margin:0 0 .3rem}.soft{color:var(--soft);font-size:.9rem}
section{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:1.2rem 1.4rem;margin:1.2rem 0}
.answer{font-size:1.15rem;font-weight:600;color:var(--good)}.wrong{color:var(--bad)}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;margin:.6rem 0}td,th{padding:.2rem .8rem .2rem 0;text-align:left;border-bottom:1px solid var(--line)}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}svg{display:block;max-width:100%;height:auto}svg text{font:13px system-ui,sans-serif;fill:var(--ink)}
.ours{fill:var(--ours)}.peer{fill:var(--peer)}.whisker{stroke:var(--ink);stroke-width:1.5}
"""


def bars(rows):
    """[(label, class, value, low, high, words)] as horizontal bars from zero, whiskers where low and high are given."""
    top = max(max(r[2], r[4] or 0) for r in rows) or 1
    out = [f'<svg viewBox="0 0 720 {len(rows) * 30 + 4}" width="720" role="img">']
    for k, (label, kind, value, low, high, words) in enumerate(rows):
        y, scale = k * 30 + 4, 330 / top
        out.append(f'<text x="0" y="{y + 16}">{escape(label)}</text><rect class="{kind}" x="150" y="{y}" width="{max(value * scale, 1):.1f}" height="22" rx="2"/>')
        if low is not None:
            a, b = 150 + low * scale, 150 + high * scale
            out.append(f'<path class="whisker" d="M{a:.1f} {y + 11}H{b:.1f}M{a:.1f} {y + 6}V{y + 16}M{b:.1f} {y + 6}V{y + 16}"/>')
        out.append(f'<text x="{158 + max(value, high or 0) * scale:.1f}" y="{y + 16}">{escape(words)}</text>')
    return "".join(out) + "</svg>"


def heat(values, lowest, highest, x, y, size):
    """Squares of a matrix, pale to strong, with their numbers."""
    out = []
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            share = min(max((value - lowest) / (highest - lowest), 0), 1)
            left, top = x + column * size, y + row * size
            colour = "#{:02x}{:02x}{:02x}".format(*(round(a + (b - a) * share) for a, b in ((247, 176), (242, 66), (234, 14))))
            words = f"{value:.2f}" if isinstance(value, float) else str(value) if value else ""
            out.append(f'<rect x="{left}" y="{top}" width="{size - 2}" height="{size - 2}" rx="3" fill="{colour}"/>'
                       f'<text x="{left + size / 2 - 1:.0f}" y="{top + size / 2 + 4:.0f}" text-anchor="middle" style="fill:{"#fff" if share > 0.55 else "#3a2a1c"};font-size:12px">{words}</text>')
    return "".join(out)


def likeness(report, standalone=False):
    """Cosines between the sentences; with `standalone` an SVG file of its own."""
    texts, size, left, top = report["texts"], 46, 400, 8 + 38 * standalone
    width, height = left + size * len(texts), top + size * len(texts) + 4 + 26 * standalone
    out = []
    if standalone:
        out.append(f'<rect width="{width + 12}" height="{height}" fill="#fbfbf9"/>'
                   '<text x="8" y="26" style="font-size:16px;font-weight:600">Which sentences belong together: MiniLM through a peri engine</text>')
    for k, text in enumerate(texts):
        x = 8 * standalone
        out.append(f'<text x="{x}" y="{top + k * size + size / 2 + 4:.0f}">{k + 1}. {escape(text)}</text>')
    out.append(heat(report["likeness"], 0.0, 1.0, left, top, size))
    if standalone:
        a = report["agreement"]
        out.append(f'<text x="8" y="{height - 9}" style="fill:#5b6675">{escape(report["answer"])}; cosines of the sentence vectors; '
                   f'largest difference from ONNX Runtime {a["of_range"]:.1e} of the range</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 12 * standalone} {height}" width="{width + 12 * standalone}" role="img"'
    style = ' style="font:13px system-ui,sans-serif" fill="#1c2430"' if standalone else ""
    return head + style + ">" + "".join(out) + "</svg>"


def picture(whole):
    return likeness(next(r for r in whole["models"] if "likeness" in r), standalone=True) + "\n"


def own_figure(report):
    if "likeness" in report:
        return f"<h3>Cosines between the sentences</h3>{likeness(report)}"
    if "confusion" in report:
        values = report["confusion"]
        names = "".join(f'<text x="{70 + k * 42}" y="16" text-anchor="middle">{k}</text><text x="36" y="{48 + k * 42}" text-anchor="end">{k}</text>' for k in range(10))
        size = 44 + 42 * 10
        return (f'<h3>Digit shown (row), digit answered (column)</h3><svg viewBox="0 0 {size + 10} {size - 14}" width="{size + 10}" role="img">'
                f'{names}{heat(values, 0, max(map(max, values)), 50, 24, 42)}</svg>')
    return ""


def stages(report):
    e = report["engine"]
    made = "used again: built by an earlier run from the same model by the same program" if e["again"] else (
        f"import {e['import_seconds']:.2f} s, passes {e['passes_seconds']:.2f} s, candidates verified and timed {e['tune_seconds']:.1f} s")
    a = report["agreement"]
    rows = [("engine", f"{made}; tuned for {e['dims']}; {e['bytes'] / 1e6:.1f} MB"),
            ("steps", f"{e['steps']}, of them {e['verified_steps']} by kernels held against the float64 reference when the engine was built, {e['reference_steps']} on the reference itself"),
            ("verified", f"largest error {report['verified']['of_range']:.1e} of the output's range against the float64 reference (limit 1e-4)" + (", when the engine was built" if e["again"] else "")),
            ("load", f"{report['load_ms']:.1f} ms from file to ready"),
            ("agreement", f"largest difference {a['of_range']:.1e} of the output's range (limit 1e-4), cosine less the mean {a['cosine']:.7f} (limit 0.9999)" + (f"; {a['why']}" if a["why"] else "")),
            ("note", report["peer_note"])]
    return "<table>" + "".join(f"<tr><th>{k}</th><td>{escape(v)}</td></tr>" for k, v in rows) + "</table>"


def section(report, peer):
    ours, theirs = report["time"]["peri"], report["time"]["onnxruntime"]
    times = bars([(label, kind, t["median_ms"], *t["interval_ms"], f"{t['median_ms']:.3f} ms, {t['samples']} samples")
                  for label, kind, t in (("peri", "ours", ours), (peer, "peer", theirs))])
    layers = bars([(f"{x['ms']:.3f} ms", "ours", x["share"], None, None, f"{x['share']:.1f} %  {x['kernel']}") for x in report["layers"]])
    rows = "".join(f"<tr><td>{escape(x['step'])}</td><td>{escape(x['kernel'])}</td><td class='n'>{x.get('nodes', '')}</td><td class='n'>{x.get('candidates', '')}</td>"
                   f"<td class='n'>{x['ms']:.3f}</td><td class='n'>{x['share']:.1f} %</td></tr>" for x in report["layers"])
    ratio = ours["median_ms"] / theirs["median_ms"]
    return f"""<section><h2>{escape(report['name'])}</h2>
<p class="answer{'' if report['right'] else ' wrong'}">{escape(report['answer'])}{'' if report['right'] else ': WRONG'}</p>
{stages(report)}<div class="scroll">{own_figure(report)}
<h3>Time of one run</h3>{times}
<p class="soft">{escape(report['shape'])}; {report['threads']} threads each; medians with 95 % intervals, measured in turns in this run.
peri takes {ratio:.2f} times ONNX Runtime's time here.</p>
<h3>Where the time goes</h3>{layers}
<table><tr><th>step</th><th>kernel</th><th class="n">model nodes</th><th class="n">candidates</th><th class="n">ms</th><th class="n">share</th></tr>{rows}</table></div></section>"""


def page(whole):
    machine = whole["machine"]
    body = "".join(section(r, "ONNX Runtime") for r in whole["models"])
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Perihelion: a demo run</title><style>{STYLE}</style>
<h1>Perihelion: a demo run</h1><p class="soft">{escape(whole['when'])}, {escape(machine['cpu'])}, {machine['threads']} threads, {escape(machine['system'])};
beside {escape(whole['peer'])}; {whole['seconds']:.0f} s without set-up. Every figure was measured in this run unless its line says that the engine was used again.</p>
{body}</html>
"""
