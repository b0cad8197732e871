"""How the page looks, by day and by night; a system has one colour in all plots."""

# Colours that people tell apart whatever their eyes, on white and on near black.
_BY_DAY = (
    "#0072b2", "#d55e00", "#009e73", "#b0508a", "#9a7400", "#3a9bd9", "#6a4fb3", "#8c564b",
)  # fmt: skip
_BY_NIGHT = (
    "#5db4ff", "#ff9552", "#38d1a4", "#f29ccb", "#e6c34a", "#a4dcff", "#bda4ff", "#d3a894",
)  # fmt: skip
# Systems that plots show; tables show them all.
PLOTTED = len(_BY_DAY)


def _colours(palette: tuple[str, ...]) -> str:
    return "".join(f"--s{place}:{colour};" for place, colour in enumerate(palette))


_CLASSES = "".join(
    f".f{n}{{fill:var(--s{n})}}.l{n}{{stroke:var(--s{n})}}.b{n}{{background:var(--s{n})}}"
    for n in range(PLOTTED)
)

STYLE = f"""
:root{{color-scheme:light dark;--page:#fff;--ink:#1c2126;--soft:#5d6773;--rule:#dfe4e9;
--panel:#f6f8fa;--bar:#c3cbd3;{_colours(_BY_DAY)}}}
@media (prefers-color-scheme:dark){{:root{{--page:#14181c;--ink:#e6eaee;--soft:#98a3ae;
--rule:#2d353d;--panel:#1b2126;--bar:#4a545e;{_colours(_BY_NIGHT)}}}}}
*{{box-sizing:border-box}}
body{{margin:0 auto;max-width:1080px;padding:2rem 1.25rem 4rem;background:var(--page);
color:var(--ink);font:15px/1.5 system-ui,sans-serif}}
h1{{font-size:1.7rem;margin:0 0 .25rem}}
h2{{font-size:1.2rem;margin:2.75rem 0 .35rem;padding-top:.9rem;border-top:1px solid var(--rule)}}
h3{{font-size:1rem;margin:1.5rem 0 .25rem}}
p{{margin:.3rem 0 .8rem;max-width:50rem}}
.soft{{color:var(--soft)}}
code,td.number,.mono{{font-family:ui-monospace,monospace;font-size:.86em}}
details{{margin:.3rem 0}}
summary{{cursor:pointer;color:var(--soft)}}
.wide{{overflow-x:auto;margin:.5rem 0 1rem}}
table{{border-collapse:collapse;font-size:.92em}}
th,td{{padding:.28rem .8rem .28rem 0;text-align:left;vertical-align:baseline;
border-bottom:1px solid var(--rule)}}
th{{color:var(--soft);font-weight:600;white-space:nowrap}}
td{{overflow-wrap:break-word;max-width:24rem}}
.number{{text-align:right;white-space:nowrap}}
svg{{display:block;width:100%;height:auto;margin:.25rem 0 .5rem}}
.label{{fill:var(--soft);font:11px system-ui,sans-serif}}
.name{{fill:var(--ink);font:11px ui-monospace,monospace}}
.grid{{stroke:var(--rule);stroke-width:1}}
.even{{stroke:var(--soft);stroke-width:1;stroke-dasharray:2 4}}
.panel{{fill:var(--panel)}}
.actual{{fill:var(--bar)}}
.taken{{fill:none;stroke:var(--soft);stroke-width:2;stroke-dasharray:6 3}}
.curve{{fill:none;stroke-width:2;stroke-linejoin:round}}
.mark{{stroke:var(--page);stroke-width:1}}
.due{{fill:var(--page);stroke-width:2}}
.legend{{display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;margin:.4rem 0;font-size:.9em}}
.legend span{{display:inline-flex;align-items:center;gap:.4rem}}
.legend i{{width:.85em;height:.85em;border-radius:2px;display:inline-block}}
.legend i.actual{{background:var(--bar)}}
{_CLASSES}
"""
