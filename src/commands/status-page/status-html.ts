import { createHash } from 'node:crypto'
import { type Group, type Html, html, markup, type Part, table } from '../../drill/report/page/html.ts'
import { styles } from '../../drill/report/page/styles.ts'
import type { MasterRow } from '../../kubernetes-service/masters/masters.ts'
import { formatTime } from '../../runtime/time-format.ts'
import type { Status } from './status-source.ts'

/** The most rows of a table. A cluster needs fewer objects and masters, but clients may create thousands. */
const MAX_ROWS = 200
const MAX_LENGTH = 253

type Row = Group['rows'][number]

/** The parts of the page that change, as HTML, by the ids of their elements. Pure. */
export function statusSections(status: Status): Readonly<Record<string, string>> {
  const sections = {
    faults: html`${status.faults.map((fault) => html`<p class="broken">${fault}</p>`)}`,
    masters: mastersTable(status),
    objects: table({
      label: 'Objects',
      caption: 'The objects that the masters maintain',
      columns: [{ name: 'Kind' }, { name: 'Name' }, { name: 'State' }],
      groups: [{ rows: firstRows(status.objects, ({ kind, name, detail }) => [kind, name, detail]) }],
    }),
    activity: activityTable(status),
  }
  return Object.fromEntries(Object.entries(sections).map(([id, section]) => [id, section.toString()]))
}

/** The rows of the first items, and a row with the number of further items. */
function firstRows<T>(items: readonly T[], cells: (item: T) => Row): readonly Row[] {
  const left = items.length - MAX_ROWS
  const first = items.slice(0, MAX_ROWS).map(cells)
  return left > 0 ? [...first, ['…', `and ${left} more`]] : first
}

function mastersTable({ masters, ageMs, place }: Status): Html {
  if (masters === undefined) return html`<p>The masters have not been read yet.</p>`
  if (masters.length === 0) return html`<p>No address is listed, and there are no leases of masters ${place}.</p>`
  return table({
    label: 'Masters',
    caption: 'The masters, and until when the lease of each lasts',
    columns: ['Address', 'Host', 'State', 'Lease left', 'Listed', 'Conflicts'].map((name) => ({ name })),
    groups: [{ rows: firstRows(masters, (row) => masterCells(row, ageMs)) }],
  })
}

function masterCells(row: MasterRow, ageMs: number): Row {
  const { address, holder, listed, conflicts } = row
  return [
    html`<span class="address">${address ?? '-'}</span>`,
    short(holder?.host ?? '-'),
    holder?.state ?? '-',
    leaseLeft(row, ageMs),
    { text: listed === undefined ? '-' : listed ? 'yes' : 'no', broken: listed === false },
    { text: short(conflicts.map(({ message }) => message).join('; ') || '-'), broken: conflicts.length > 0 },
  ]
}

/** Any client that can write a lease can state a host name of any length. */
function short(text: string): string {
  return text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}…` : text
}

function leaseLeft({ life, verdict, leased }: MasterRow, ageMs: number): Part {
  if (life === undefined || !leased) return '-'
  if (life.type === 'never') return 'never ends'
  if (life.type === 'renewed' && verdict === 'stale') return 'over'
  if (life.leftMs === undefined) return '-'
  const leftMs = Math.max(0, Math.round(life.leftMs - ageMs))
  // The page gets a duration and counts it down, because a browser behind a forwarded port may have another clock.
  return html`<span data-left="${leftMs}">${Math.ceil(leftMs / 1000)} s</span>`
}

function activityTable({ activity }: Status): Html {
  if (activity.length === 0) return html`<p>Nothing has happened since this page was started.</p>`
  return table({
    label: 'What happened',
    caption:
      'The latest first. An Event is what a master reports that it did, and why; whoever may create Events can write one.',
    columns: [{ name: 'Time (UTC)' }, { name: 'What' }, { name: 'Details' }, { name: 'Reported by' }],
    groups: [
      {
        rows: activity.map(({ atMs, kind, text, source }) => [
          formatTime(atMs).slice(11, 19),
          { text: kind === 'Normal' ? 'Event' : kind, broken: kind === 'Warning' },
          text,
          source ?? '-',
        ]),
      },
    ],
    tall: true,
  })
}

/** The page reports a silence longer than this, in milliseconds. The server sends a message every five seconds. */
const SILENT_MS = 12_000

/** Puts new sections into the page, and counts down the leases. */
const script = `
const live = 'the present state, live'
const connection = document.getElementById('connection')
const say = text => { if (connection.textContent !== text) connection.textContent = text }
const shown = {}
let messageMs = performance.now()
let mastersMs = messageMs
const show = ({ data }) => {
  messageMs = performance.now()
  const sections = Object.entries(JSON.parse(data))
  if (sections.some(([id]) => id === 'masters')) mastersMs = messageMs
  for (const [id, html] of sections) {
    if (shown[id] === html) continue
    shown[id] = html
    const element = document.getElementById(id)
    const before = element.querySelector('[tabindex]')
    const hadFocus = before !== null && before === document.activeElement
    const scrolled = before && [before.scrollLeft, before.scrollTop]
    element.innerHTML = html
    const after = element.querySelector('[tabindex]')
    if (after === null || before === null) continue
    after.scrollTo(...scrolled)
    if (hadFocus) after.focus({ preventScroll: true })
  }
}
const follow = () => {
  const source = new EventSource('events')
  source.onopen = () => {
    messageMs = performance.now()
    say(live)
  }
  source.onmessage = event => {
    say(live)
    show(event)
  }
  source.onerror = () => {
    say('the last state that was received; the connection is lost, trying again')
    // A browser does not reconnect by itself after a refusal.
    if (source.readyState === EventSource.CLOSED) setTimeout(follow, 5000)
  }
}
follow()
setInterval(() => {
  const silentMs = performance.now() - messageMs
  if (silentMs > ${SILENT_MS}) say('the last state that was received; nothing more for ' + Math.round(silentMs / 1000) + ' s')
  const passedMs = performance.now() - mastersMs
  for (const element of document.querySelectorAll('[data-left]')) {
    const left = Math.max(0, Math.ceil((element.dataset.left - passedMs) / 1000)) + ' s'
    if (element.textContent !== left) element.textContent = left
  }
}, 250)
`

function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`
}

export const contentSecurityPolicy = [
  "default-src 'none'",
  `style-src ${hashOf(styles)}`,
  `script-src ${hashOf(script)}`,
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** The whole page. A browser without scripts shows the present state, and reloads it every two seconds. */
export function statusDocument(status: Status): string {
  const sections = statusSections(status)
  const card = (id: string, title: string): Html =>
    html`<section class="card" aria-labelledby="${id}-title"><h2 id="${id}-title">${title}</h2><div id="${id}">${markup(sections[id] ?? '')}</div></section>\n`
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<noscript><meta http-equiv="refresh" content="2"></noscript>
<link rel="icon" href="data:,">
<title>default/kubernetes</title>
<style>${markup(styles)}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the masters</a>
<header>
<h1>default/kubernetes</h1>
<p>This page shows: <span id="connection" role="status">the state when it was loaded</span></p>
<div id="faults">${markup(sections.faults ?? '')}</div>
</header>
<main id="main" tabindex="-1">
${card('masters', 'Masters')}${card('objects', 'Objects')}${card('activity', 'What happened')}
</main>
<footer>This page is read-only.</footer>
<script>${markup(script)}</script>
</body>
</html>
`
  return page.toString()
}
