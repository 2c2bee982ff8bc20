// The style of the HTML page: light and dark by the reader's preference, system fonts, no file beside it.
#pragma once

namespace dropless {

constexpr const char* html_style = R"css(
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #1b1f24; --muted: #59636e; --line: #d8dee4; --accent: #0b5cad;
  --warn-back: #fff6e0; --warn-line: #c58a00;
  --h0: #ffffff; --h1: #2166ac; --h2: #4393c3; --h3: #92c5de; --h4: #d1e5f0; --h5: #efeee9; --h6: #fddbc7;
  --h7: #f4a582; --h8: #d6604d; --h9: #b2182b; --h10: #67001f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0f1216; --card: #171b21; --ink: #e8ebef; --muted: #9aa4af; --line: #2d343d; --accent: #6db3f2;
    --warn-back: #2c2410; --warn-line: #d8a63a;
    --h0: #171b21; --h1: #8ccbff; --h2: #4a9ae0; --h3: #31689b; --h4: #2b4560; --h5: #3b4048; --h6: #5c4238;
    --h7: #94523a; --h8: #cf6b45; --h9: #f59763; --h10: #ffd0a8;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
header, main, footer { max-width: 1260px; margin: 0 auto; padding: 0 20px; }
header { padding-top: 32px; }
h1 { font-size: 26px; line-height: 1.2; margin: 0 0 4px; }
h2 { font-size: 18px; margin: 0 0 4px; }
p { margin: 0 0 12px; }
code { font-family: ui-monospace, "SFMono-Regular", Menlo, Consolas, monospace; font-size: 0.93em;
  overflow-wrap: anywhere; }
.note, footer { color: var(--muted); font-size: 13.5px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 20px 22px;
  margin: 16px 0; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(320px, 1fr)); gap: 16px; margin: 16px 0; }
.grid section { margin: 0; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(164px, 1fr)); gap: 12px; margin: 20px 0 0;
  padding: 0; }
.facts div { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 10px 13px; }
.facts dt { color: var(--muted); font-size: 13px; white-space: nowrap; }
.facts dd { margin: 0; font-size: 17px; font-weight: 600; font-variant-numeric: tabular-nums; }
.warnings { background: var(--warn-back); border: 1px solid var(--warn-line); border-left-width: 5px; }
.warnings ul { margin: 0; padding-left: 20px; }
.scroll { overflow-x: auto; }
svg.wide { min-width: 760px; }
table { border-collapse: collapse; width: 100%; font-size: 12.5px; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 4px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
thead th { color: var(--muted); font-weight: 600; vertical-align: bottom; }
th[scope=row], .left { text-align: left; font-weight: 600; }
th small { display: block; color: var(--muted); font-weight: 400; font-size: 12px; white-space: normal; }
tbody tr:last-child > * { border-bottom: 0; }
.meter { display: inline-block; width: 28px; height: 9px; margin-right: 6px; border-radius: 2px;
  background: var(--line); vertical-align: middle; overflow: hidden; }
.meter i { display: block; height: 100%; background: var(--h8); }
svg { display: block; width: 100%; height: auto; }
svg text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--muted); }
svg .rule { stroke: var(--line); }
svg .bar { fill: var(--accent); }
svg polyline { fill: none; stroke-linejoin: round; }
svg polyline.layer { stroke: var(--muted); stroke-width: 1; opacity: 0.45; }
svg polyline.total { stroke: var(--accent); stroke-width: 2.5; }
svg circle.total { fill: var(--accent); }
svg .curve { fill: none; stroke-width: 2; }
svg polyline.dashed { stroke-dasharray: 5 4; }
svg.key { display: inline-block; width: 24px; height: 8px; margin-right: 6px; vertical-align: 2px; }
.h0 { fill: var(--h0); background: var(--h0); stroke: var(--line); }
.h1 { fill: var(--h1); background: var(--h1); } .h2 { fill: var(--h2); background: var(--h2); }
.h3 { fill: var(--h3); background: var(--h3); } .h4 { fill: var(--h4); background: var(--h4); }
.h5 { fill: var(--h5); background: var(--h5); } .h6 { fill: var(--h6); background: var(--h6); }
.h7 { fill: var(--h7); background: var(--h7); } .h8 { fill: var(--h8); background: var(--h8); }
.h9 { fill: var(--h9); background: var(--h9); } .h10 { fill: var(--h10); background: var(--h10); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 8px 0 0; padding: 0;
  color: var(--muted); font-size: 13px; }
.swatch { display: inline-block; width: 14px; height: 14px; margin-right: 6px; border: 1px solid var(--line);
  border-radius: 3px; vertical-align: -2px; }
.swatch.line { height: 0; width: 22px; border: 0; border-top: 3px solid var(--accent); vertical-align: 4px; }
.swatch.thin { border-top: 1px solid var(--muted); }
dl.record { display: grid; grid-template-columns: minmax(140px, max-content) 1fr; gap: 4px 18px; margin: 8px 0 0; }
dl.record dt { color: var(--muted); }
dl.record dd { margin: 0; overflow-wrap: anywhere; }
dl.record dl.record { margin: 0; }
@media (max-width: 400px) { .grid { grid-template-columns: 1fr; } dl.record { grid-template-columns: 1fr; } }
@media print { section, .facts div { break-inside: avoid; } }
)css";

}  // namespace dropless
