import { type Html, html, markup } from './html.ts'

/** What charts refer to: patterns and marks. Stands on the page once. */
export const definitions: Html = markup(`<svg class="defs" aria-hidden="true" focusable="false"><defs>
<pattern id="stripes" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="p1" d="M1.5 0v6"/></pattern>
<pattern id="dots" width="5" height="5" patternUnits="userSpaceOnUse"><circle class="p2" cx="2.5" cy="2.5" r="1.5"/></pattern>
<pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse"><path class="p0" d="M0 0h5v5h-5z"/><path class="p3" d="M0 0l5 5M5 0l-5 5"/></pattern>
<path id="fault" d="M0 8l-4.5-7h9z"/><path id="cross" d="M-4-4l8 8M4-4l-8 8"/></defs></svg>`)

/** How to read a chart, in words. */
export function legend(seen: { readonly leases: boolean; readonly violations: boolean }): Html {
  const swatch = (fill: string): Html =>
    html`<svg aria-hidden="true"><rect class="${fill}" y="2" width="100%" height="8"/></svg>`
  const mark = (id: string, kind: string): Html =>
    html`<svg aria-hidden="true"><svg x="50%" overflow="visible"><use href="#${id}" class="${kind}" y="${id === 'fault' ? 2 : 6}"/></svg></svg>`
  const nothing = html`<svg aria-hidden="true"><line class="base" x2="100%" y1="6" y2="6"/></svg>`
  const both = html`<svg aria-hidden="true"><rect class="l" width="100%" height="3"/><rect class="l" y="5" width="100%" height="6"/></svg>`
  return html`<ul class="legend" aria-label="How to read the charts">
<li>${swatch('s')} the process runs, the server is ready
<li>${swatch('u')} stopping, or not ready
<li>${swatch('q')} frozen, silent, or black-holed to clients
<li>${swatch('c')} clients are served
<li>${both} in Endpoints (thin) and in the EndpointSlice (thick)
<li>${swatch('d')} listed, although no client was served there
${seen.leases ? html`<li>${swatch('h')} its lease is held` : undefined}
<li>${swatch('r')} client errors: refused
<li>${swatch('b')} client errors: black-holed
<li>${swatch('o')} client errors: no address known
<li>${nothing} none of it: down, refused, not listed, no lease
<li>${mark('fault', 'm')} a fault, by its number, and at the master that it was done to
${seen.violations ? html`<li>${mark('cross', 'v')} something did not hold` : undefined}
</ul>`
}
