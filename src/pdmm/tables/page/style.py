"""How the page looks: on a wide screen, on a phone, in the dark and on paper."""

STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1b2430; --soft: #566270; --rule: #d8dee6; --faint: #edf0f4; --paper: #ffffff;
  --box: #f6f8fa; --blue: #0b66a8; --orange: #c04f00; --band: #0b66a81f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e4e8ed; --soft: #a3aebb; --rule: #3a4552; --faint: #27303a; --paper: #14191f;
    --box: #1c232b; --blue: #6cb6f0; --orange: #f4a259; --band: #6cb6f02e;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial,
    "Liberation Sans", sans-serif;
  font-variant-numeric: lining-nums;
}
main, header, footer { max-width: 1240px; margin: 0 auto; padding: 0 clamp(16px, 4vw, 40px); }
header { padding-top: clamp(24px, 5vw, 56px); }
p, ul, figcaption { max-width: 76ch; }
p { margin: 0 0 0.8em; overflow-wrap: anywhere; }
h1, h2, h3 { line-height: 1.2; font-weight: 650; overflow-wrap: anywhere; }
h1 { font-size: clamp(1.55rem, 1.1rem + 2vw, 2.2rem); margin: 0.1em 0 0.35em; }
h2 { font-size: 1.35rem; margin: 0 0 0.7em; }
h3 { font-size: 1.02rem; margin: 1.8em 0 0.5em; }
section { border-top: 1px solid var(--rule); margin-top: 2.4rem; padding-top: 1.8rem; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; }
code { font-size: 0.9em; overflow-wrap: anywhere; }
pre {
  background: var(--box); border: 1px solid var(--rule); border-radius: 6px; padding: 0.8em 1em;
  overflow-x: auto; margin: 0 0 1em; font-size: 0.92rem; line-height: 1.5;
}
pre code { overflow-wrap: normal; }
.over { color: var(--soft); font-size: 0.9rem; margin: 0; }
.formula { font-size: 1.02rem; margin: 0 0 1.4em; }
.short { background: var(--box); border-left: 4px solid var(--blue); border-radius: 0 6px 6px 0;
  padding: 0.9em 1.2em; margin: 1.4em 0 0; }
.short h2 { font-size: 1rem; margin: 0 0 0.4em; }
.short ul { margin: 0; padding-left: 1.1em; max-width: 100ch; }
.short li { margin: 0.25em 0; overflow-wrap: anywhere; }
.alert { background: var(--box); border-left: 4px solid var(--orange); border-radius: 0 6px 6px 0;
  padding: 0.9em 1.2em; margin: 1.4em 0 0; }
.alert h2 { font-size: 1rem; margin: 0 0 0.4em; color: var(--orange); }
.alert ul { list-style: none; margin: 0 0 0.3em; padding: 0; max-width: 100ch; }
.alert li { overflow-wrap: anywhere; }
.alert p { margin: 0; }
.who { list-style: none; display: flex; flex-wrap: wrap; gap: 0.5em; margin: 0; padding: 0;
  max-width: none; }
.who li { background: var(--box); border: 1px solid var(--rule); border-radius: 6px;
  padding: 0.15em 0.7em; overflow-wrap: anywhere; }
nav { margin-top: 1.2em; font-size: 0.92rem; }
nav a { color: var(--blue); margin-right: 1.1em; white-space: nowrap; text-underline-offset: 3px; }
.after { margin-top: 1.2em; }
.note { color: var(--soft); font-size: 0.9rem; }
.remark { border-left: 4px solid var(--orange); padding: 0.2em 0 0.2em 1em; }
.lead { font-size: 1.08rem; font-weight: 600; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
dl, dd { margin: 0; }
dt { color: var(--soft); font-size: 0.85rem; }
dd { overflow-wrap: anywhere; }
.key { display: flex; flex-wrap: wrap; gap: 0.6em 2.6em; }
.key div { display: flex; flex-direction: column-reverse; }
.key dd { font-size: 1.5rem; font-weight: 600; line-height: 1.2; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 300px), 1fr));
  gap: 0.9em 2.4em; }
.facts.figures { grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); margin: 1em 0; }
.figures dd { font-size: 1.08rem; font-variant-numeric: tabular-nums; }
.facts.stacked { grid-template-columns: 1fr; gap: 0.6em; align-content: start; }
.scroll { overflow-x: auto; margin: 0 0 1em; }
.scroll:focus-visible { outline: 2px solid var(--blue); outline-offset: 2px; }
table { border-collapse: collapse; font-size: 0.92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); font-size: 0.9rem; padding: 0 0 0.5em; }
caption span { display: block; position: sticky; left: 0; width: max-content;
  max-width: min(76ch, calc(100vw - 2 * clamp(16px, 4vw, 40px))); }
th, td { padding: 0.38em 0.65em; text-align: right; border-bottom: 1px solid var(--faint);
  white-space: nowrap; vertical-align: middle; }
thead th { border-bottom: 1px solid var(--rule); color: var(--soft); font-weight: 500;
  vertical-align: bottom; white-space: normal; }
th:first-child { text-align: left; padding-left: 0; }
tbody th { font-weight: 500; max-width: 21rem; min-width: var(--name, 6rem); white-space: normal;
  overflow-wrap: anywhere; }
tfoot th, tfoot td { font-weight: 600; border-top: 1px solid var(--rule); border-bottom: 0; }
.dense th, .dense td { padding-top: 0.14em; padding-bottom: 0.14em; }
.forest { width: 100%; }
.forest .main { font-weight: 600; }
th.group { padding-top: 1.3em; font-weight: 650; border-bottom: 1px solid var(--rule);
  max-width: none; }
td.clear { font-weight: 600; }
.differs th, .differs td:nth-last-child(-n+2), span.differs { color: var(--orange);
  font-weight: 650; }
th.plot, td.plot { position: relative; width: 34%; min-width: 230px; padding: 0; height: 2.1em; }
th.plot { padding: 0 0 1.7em; text-align: center; vertical-align: bottom; }
td.plot svg { position: absolute; top: 0; left: 0; width: calc(100% - var(--units)); height: 100%; }
.units { position: absolute; right: 0; top: 50%; transform: translateY(-50%); font-size: 11px;
  color: var(--soft); }
th.plot .ticks { position: absolute; left: 0; bottom: 0; width: calc(100% - var(--units)); }
th.plot > span { display: block; padding-right: var(--units); }
svg { display: block; width: 100%; }
svg text { font-size: 11px; fill: var(--soft); font-variant-numeric: tabular-nums; }
.ticks { overflow: visible; height: 1.5em; }
.open { overflow: visible; }
.grid { stroke: var(--faint); stroke-width: 1; }
.none { stroke: var(--soft); stroke-width: 1; }
.interval { stroke: var(--blue); stroke-width: 1.6; }
.point { fill: var(--paper); stroke: var(--blue); stroke-width: 1.6; }
.clear .point, .dot, .diamond { fill: var(--blue); }
.small .point { fill: var(--blue); stroke: none; }
.curve { stroke: var(--blue); stroke-width: 1.6; }
.bar { stroke: var(--rule); stroke-width: 2; }
.beyond { fill: var(--blue); font-size: 15px; font-weight: 700; }
.band { fill: var(--band); }
g.differs .interval { stroke: var(--orange); }
g.differs .point, g.differs .bar { stroke: var(--rule); stroke-width: 2; }
.beyond { fill: var(--orange); }
figure { margin: 0; min-width: 0; break-inside: avoid; }
figcaption { font-size: 0.9rem; margin-bottom: 0.5em; overflow-wrap: anywhere; }
figcaption span { color: var(--soft); margin-left: 0.7em; white-space: nowrap; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 300px), 1fr));
  gap: 1.9em 2.2em; margin: 1.2em 0; }
.small { display: grid; grid-template-columns: minmax(3.5rem, max-content) minmax(0, 1fr);
  column-gap: 0.7em; }
.names span { display: block; height: var(--row); line-height: var(--row); max-width: 8.5rem;
  font-size: min(12.5px, calc(var(--row) - 1.5px)); overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; }
.names .joint { font-weight: 650; }
.beside { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 340px), 1fr));
  gap: 1.6em 3em; margin-top: 1.2em; }
.curves { padding-left: 3.4em; max-width: 640px; }
.below { text-align: center; color: var(--soft); font-size: 0.82rem; }
details { margin: 1em 0; }
summary { cursor: pointer; color: var(--blue); }
details .scroll { margin-top: 0.8em; }
footer { margin-top: 3rem; padding-bottom: 3rem; color: var(--soft); font-size: 0.9rem; }
@media (max-width: 640px) {
  .forest tbody th:not(.group), .sites tbody th { position: sticky; left: 0; z-index: 1;
    background: var(--paper); max-width: 9.5rem; min-width: 6rem; }
  th.plot, td.plot { min-width: 200px; }
  .key { gap: 0.6em 1.8em; }
}
@media print {
  :root { --ink: #000; --soft: #444; --rule: #bbb; --faint: #e4e4e4; --paper: #fff; --box: #fff;
    --blue: #0b66a8; --orange: #c04f00; --band: #0b66a81f; color-scheme: light; }
  @page { margin: 14mm; }
  html { font-size: 9.5pt; }
  body { font-size: 9.5pt; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  main, header, footer { max-width: none; padding: 0; }
  nav, details { display: none; }
  .scroll { overflow: visible; }
  table { font-size: 7.5pt; }
  th, td { padding: 0.25em 0.45em; }
  th.plot, td.plot { min-width: 150px; }
  tfoot { display: table-row-group; }
  .panels { grid-template-columns: repeat(3, 1fr); }
  tr, .short, dl div { break-inside: avoid; }
  h2, h3, caption { break-after: avoid; }
  pre { white-space: pre-wrap; }
  section { margin-top: 1.4rem; padding-top: 1.1rem; }
}
"""
