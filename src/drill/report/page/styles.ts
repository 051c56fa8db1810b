/**
 * The colours of the page, in its light and its dark scheme. The contrast with the background is at least 4.5 to 1 for
 * text and 3 to 1 for shapes in charts; a test computes it.
 */
const colours = {
  page: ['#f6f7f8', '#121518'],
  surface: ['#ffffff', '#1a1e23'],
  // Text, and secondary text.
  text: ['#1b2127', '#e4e8ec'],
  aside: ['#56616c', '#9ba7b3'],
  link: ['#0a58a8', '#7db8f5'],
  held: ['#17703f', '#62c68f'],
  broken: ['#b1221b', '#ff8f86'],
  // Borders and grid lines.
  line: ['#d8dde2', '#323a42'],
  // In charts: a process that runs; clients served; listed; lease held; stopping, unready, frozen or silent; listed
  // while no client is served; the base line.
  life: ['#75818c', '#7f8b97'],
  served: ['#2f8a5b', '#4fae7e'],
  listed: ['#2a6dbb', '#5b9fe6'],
  lease: ['#7c57b3', '#a888dc'],
  amiss: ['#ad6c00', '#d0963a'],
  dead: ['#c92a22', '#f0655b'],
  base: ['#b3bcc5', '#505b66'],
} as const

type Palette = Readonly<Record<keyof typeof colours, string>>

export const palettes = { light: paletteOf(0), dark: paletteOf(1) }

function paletteOf(scheme: 0 | 1): Palette {
  return Object.fromEntries(Object.entries(colours).map(([name, pair]) => [name, pair[scheme]])) as unknown as Palette
}

function customProperties(palette: Palette): string {
  return Object.entries(palette)
    .map(([name, colour]) => `--${name}:${colour}`)
    .join(';')
}

/** The page's style sheet. A printed page is always light. */
export const styles = `
:root{color-scheme:light dark;${customProperties(palettes.light)}}
@media screen and (prefers-color-scheme:dark){:root{${customProperties(palettes.dark)}}}
@media print{:root{color-scheme:light}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--text);font:.9375rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","Noto Sans","DejaVu Sans",sans-serif;font-variant-numeric:tabular-nums}
header,main,footer,nav{max-width:100rem;margin-inline:auto;padding-inline:clamp(.75rem,2.5vw,2rem)}
h1,h2,h3,h4{line-height:1.25;margin:0;text-wrap:balance;overflow-wrap:anywhere}
h1{font-size:1.6rem;letter-spacing:-.01em}
h2{font-size:1.15rem;margin-bottom:.6rem}
h3{font-size:1rem}
h4{font-size:.875rem}
p,ul,ol,dl,figure,pre{margin:0}
p,li,dd,summary,figcaption{overflow-wrap:anywhere}
td,th{overflow-wrap:break-word}
code,pre,.address{font-family:ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.875em}
a{color:var(--link)}
:focus-visible{outline:.1875rem solid var(--link);outline-offset:.125rem;border-radius:.125rem}
.skip{position:absolute;left:.75rem;top:-6rem;background:var(--surface);padding:.5rem .75rem;z-index:2}
.skip:focus{top:.5rem}
.aside{color:var(--aside)}
.small{font-size:.8125rem}
header{padding-block:1.5rem 1rem}
header p{max-width:75ch}
.verdict{display:flex;gap:.6rem;align-items:flex-start;margin-block:.9rem .5rem;font-size:1.0625rem;font-weight:600}
.verdict span{min-width:0;overflow-wrap:anywhere}
.verdict svg{flex:none;width:1.4rem;height:1.4rem;margin-top:.1rem}
.held{color:var(--held)}
.broken{color:var(--broken)}
.held svg,.broken svg,svg.held,svg.broken{fill:none;stroke:currentColor;stroke-width:2.2;stroke-linecap:round;stroke-linejoin:round}
nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;padding:.5rem 0;list-style:none;border-block:1px solid var(--line)}
nav a{display:inline-block;padding-block:.15rem}
main{display:grid;gap:1.25rem;padding-block:1.25rem}
section{min-width:0}
.card{background:var(--surface);border:1px solid var(--line);border-radius:.375rem;padding:clamp(.75rem,1.5vw,1.25rem);min-width:0}
.card>*+*,figure>*+*{margin-top:.75rem}
h4+.chart{margin-top:.25rem}
.breach{border-left:.3rem solid var(--broken)}
.list{padding-left:1.1rem}
.list>li+li{margin-top:.5rem}
dl.pairs{display:grid;grid-template-columns:10rem minmax(0,1fr);align-content:start;gap:.2rem 1rem}
dl.pairs dt{color:var(--aside)}
dl.pairs dd{margin:0}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--page);border:1px solid var(--line);border-radius:.25rem;padding:.5rem .65rem}
.columns{display:grid;gap:1.25rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr))}
.columns>*{min-width:0}
.runs{margin-top:1.25rem}
.stack,.beside{display:grid;gap:1.25rem}
.beside>*{min-width:0}
@media (min-width:72rem){.beside{grid-template-columns:minmax(0,1fr) minmax(0,1fr);align-items:start}}
.scroll{overflow-x:auto;max-width:100%;container-type:inline-size}
.tall{max-height:32rem;overflow-y:auto}
table{border-collapse:collapse;font-size:.875rem}
caption{text-align:left;padding-bottom:.35rem;font-weight:600}
caption .aside{font-weight:400}
.sticky{display:inline-block;position:sticky;left:0;max-width:100cqi}
.tall thead th{position:sticky;top:0;background:var(--surface)}
th,td{padding:.2rem .9rem .2rem 0;text-align:left;vertical-align:baseline;border-bottom:1px solid var(--line)}
th:last-child,td:last-child{padding-right:.25rem}
thead th{vertical-align:bottom;color:var(--aside);font-weight:600}
tbody th{font-weight:400}
tbody th[scope=rowgroup]{font-weight:600;padding-top:.9rem}
tbody th[scope=rowgroup] .aside{display:block;font-weight:400;font-size:.8125rem;max-width:min(75ch,100cqi)}
td.n,th.n{text-align:right}
td .broken{font-weight:600}
details{border-top:1px solid var(--line);padding-top:.35rem}
details>summary{cursor:pointer;padding-block:.2rem;color:var(--link)}
details>*+*{margin-top:.9rem}
.chart{container-type:inline-size;font-size:.75rem;line-height:1.2}
.plot{--who:7.5rem;--what:4.4rem;position:relative;display:grid;gap:.45rem}
.row{display:grid;grid-template-columns:var(--who) var(--what) minmax(0,1fr);align-items:start}
.row>:first-child:not(.who){grid-column:1/3}
.row>svg{grid-column:-2/-1}
.who{padding-right:.5rem;overflow-wrap:anywhere}
.strip .who{grid-column:1/3}
.who b{font-weight:600;display:block}
.who span{color:var(--aside);font-size:.6875rem}
.what{color:var(--aside);font-size:.6875rem;line-height:.8rem;white-space:nowrap}
.what span{display:block}
.row svg,.guides{display:block;width:100%;overflow:visible}
.guides{position:absolute;inset:0 0 0 auto;width:calc(100% - var(--who) - var(--what));height:100%;pointer-events:none}
.guides line{stroke:var(--line)}
.tick.guides{height:calc(100% - 1rem)}
.fault.guides{top:1.6rem;height:calc(100% - 2.6rem)}
.fault.guides line{stroke:var(--aside);stroke-dasharray:1 3}
.plot>.row{position:relative}
.axis text,.marks text{font-size:.6875rem;fill:var(--aside);text-anchor:middle}
.axis text.first{text-anchor:start}
.axis text.last{text-anchor:end}
.marks text{fill:var(--text);font-weight:600}
.axis{height:.9rem}
.marks{height:1.6rem}
.base{stroke:var(--base);stroke-width:1}
.s{fill:var(--life)}.c{fill:var(--served)}.l{fill:var(--listed)}.h{fill:var(--lease)}
.u{fill:url(#stripes)}.q{fill:url(#dots)}.d{fill:url(#hatch);stroke:var(--dead);stroke-width:1}
.r{fill:var(--dead)}.b{fill:url(#hatch);stroke:var(--dead);stroke-width:.5}.o{fill:url(#dots)}
.m{fill:var(--text)}.v{fill:none;stroke:var(--broken);stroke-width:2}
.defs{position:absolute;width:0;height:0}
.p1{stroke:var(--amiss);stroke-width:3}.p2{fill:var(--amiss)}.p3{stroke:var(--dead);stroke-width:1.4}.p0{fill:var(--surface)}
.bars{height:2.4rem;border-bottom:1px solid var(--base)}
.legend{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,19.5rem),1fr));gap:.3rem 1.25rem;list-style:none;padding:0;font-size:.8125rem}
.legend li{display:flex;gap:.45rem;align-items:center}
.legend svg{flex:none;width:2rem;height:.75rem;overflow:visible}
.steps{padding-left:1.6rem;font-size:.8125rem;columns:22rem;column-gap:2rem}
.steps li{break-inside:avoid}
.samples{height:1.5rem}
.samples .t{stroke:var(--listed);stroke-width:1.5}
@container (max-width:38rem){
.plot{--who:0rem}
.row{grid-template-columns:var(--what) minmax(0,1fr)}
.row>.who{grid-column:1/-1}
.row>:first-child:not(.who){grid-column:auto}
.who{padding-bottom:.15rem}
.who b{display:inline}
}
@container (max-width:24rem){.axis .odd{display:none}}
footer{padding-block:0 2rem;color:var(--aside);font-size:.8125rem}
@media (max-width:30rem){th,td{padding-right:.5rem}dl.pairs{grid-template-columns:7rem minmax(0,1fr)}}
@media print{
body{background:none;font-size:9pt}
nav,.skip{display:none}
.card{border:0;padding:0;break-inside:auto}
figure,tr,li{break-inside:avoid}
.scroll{overflow:visible}.tall{max-height:none}
svg,.legend{-webkit-print-color-adjust:exact;print-color-adjust:exact}
}
@media (forced-colors:active){.row svg,.legend svg{forced-color-adjust:none;background:var(--surface)}}
`
